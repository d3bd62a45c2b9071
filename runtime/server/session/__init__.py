"""Speech session shared by all WebSocket dialects. No I/O."""
