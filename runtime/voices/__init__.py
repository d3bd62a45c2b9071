"""Voices: bounded intake of reference audio; later the library on disk."""
