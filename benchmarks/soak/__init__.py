"""Soak test: minutes of mixed and abusive load on a runtime.

Each stream must equal the stream of the same request without other requests.
"""
