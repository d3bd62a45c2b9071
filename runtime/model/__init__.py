"""Networks in the order of the data flow, and loading of checkpoints.

This package has no threads, sockets or global state.
"""
