"""Speech sessions as state machines without I/O, shared by all WebSocket APIs."""
