"""The networks in the order of the data flow, and their checkpoints. No threads, no sockets, no globals."""
