"""Web server of the voice studio: serves the page and relays requests to the runtime."""
