"""HTTP routes of the studio.

The runtime's own routes are forwarded by the proxy.
"""
