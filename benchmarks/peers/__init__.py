"""Other implementations on the same checkpoint and device."""
