"""The only asyncio here: dialects, sessions, sockets, routes."""
