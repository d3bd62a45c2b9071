"""Voices: bounded intake of reference audio, voice files, and the library on disk."""
