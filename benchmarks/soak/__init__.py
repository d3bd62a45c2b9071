"""Soak test: minutes of mixed and abusive load on a runtime.

The audio of each stream must equal the audio of the same request alone.
"""
