"""The studio: the page, its port, and the relay to the runtime, which it knows by its public API only."""
