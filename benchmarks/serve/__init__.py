"""Load generator with closed loops or Poisson arrivals.

The target is an engine in this process or a server, over WebSockets.
"""
