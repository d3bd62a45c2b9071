"""HTTP routes of the studio.

The runtime's routes are relayed unchanged.
"""
