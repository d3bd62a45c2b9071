"""Comparison of codes and scores with a reference."""
