"""Studio: serves the page and relays the runtime, which it uses only through its public API."""
