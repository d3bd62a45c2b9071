"""Soak test: minutes of mixed and abusive load on a runtime.

Each stream is compared with the stream of the same request alone.
"""
