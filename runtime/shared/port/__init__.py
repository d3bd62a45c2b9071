"""HTTP and WebSocket port of the runtime and the studio.

It has the connections, access checks, limits and error responses.
"""
