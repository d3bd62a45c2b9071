"""Comparison of the engine's codes and scores with a reference."""
