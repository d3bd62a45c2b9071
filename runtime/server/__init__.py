"""HTTP and WebSocket server for several speech APIs.

The server uses asyncio; the engine does not.
"""
