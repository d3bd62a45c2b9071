"""The studio's own HTTP routes; the runtime's are relayed as they are."""
