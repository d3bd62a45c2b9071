"""The studio serves the page on its port and relays the runtime, which it knows by its public API only."""
