"""Transcripts of recordings, if a recogniser is installed as a plug-in."""
