"""Pronunciation dictionaries in ElevenLabs' format."""
