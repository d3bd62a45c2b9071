"""Protocol sessions without I/O, shared by all WebSocket APIs."""
