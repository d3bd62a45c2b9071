"""HTTP and WebSocket port: connections, access checks, limits and errors, for the runtime and the studio."""
