"""Studio's own HTTP routes; the runtime's are relayed unchanged."""
