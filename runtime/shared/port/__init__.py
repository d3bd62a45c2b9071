"""HTTP and WebSocket port of runtime and studio, with access checks, limits and errors."""
