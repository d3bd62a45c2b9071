"""OpenAPI document and HTML page of the runtime's HTTP routes."""
