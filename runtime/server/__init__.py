"""Speech over HTTP and WebSocket in several dialects; the only package with asyncio."""
