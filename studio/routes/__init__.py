"""HTTP routes of the studio (the routes of the runtime are relayed unchanged)."""
