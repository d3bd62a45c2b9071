"""Load generator with closed loops or Poisson arrivals.

The target is an in-process engine or a WebSocket server.
"""
