"""Voices are kept as files in a library on disk; reference audio is taken in within limits."""
