"""Networks in the order of the data flow, and their checkpoints. No threads, sockets or globals."""
