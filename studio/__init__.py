"""Studio: serves the page and relays the runtime.

It uses the runtime only through its public API.
"""
