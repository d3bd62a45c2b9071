"""Networks in the order of the data flow, and loading of checkpoints. No threads, sockets or global state."""
