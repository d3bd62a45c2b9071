"""Transcription of recordings with an optional recogniser plug-in."""
