"""The networks lie here in the order of the data flow, with their checkpoints. No threads, no sockets, no globals."""
