"""Speaks our own protocol, ``voicewright.speech.v1``."""
