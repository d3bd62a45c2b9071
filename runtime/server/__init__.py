"""Serves speech over HTTP and WebSocket, in several dialects; the only room with asyncio."""
