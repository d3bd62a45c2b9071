"""Soak test of a runtime, with mixed and abusive load for minutes.

The audio of each request must equal the audio of the same request without load.
"""
