"""Soak test: minutes of mixed and abusive load, with every stream compared to its solo run."""
