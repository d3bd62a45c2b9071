"""Soak test: minutes of mixed and abusive load, in which every stream is compared with a solo run."""
