"""The studio's own HTTP routes lie here; the runtime's are relayed as they are."""
