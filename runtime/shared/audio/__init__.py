"""Decoding, encoding and loudness of audio, for the runtime and the studio."""
