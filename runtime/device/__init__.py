"""What differs from one kind of device to the next, behind one small interface."""
