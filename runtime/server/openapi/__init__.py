"""OpenAPI document of the runtime's HTTP routes, and its HTML page."""
