"""Describes the runtime's HTTP routes as OpenAPI, and as a page."""
