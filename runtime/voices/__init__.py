"""Voice library on disk, and reference audio within limits."""
