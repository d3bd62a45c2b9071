"""Voice library on disk, and preparation of reference audio."""
