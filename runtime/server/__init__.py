"""HTTP and WebSocket server for several speech APIs. The engine does not use asyncio; the server does."""
