"""Neural networks of the speech model, and loading of checkpoints.

This package has no threads, sockets or global state.
"""
