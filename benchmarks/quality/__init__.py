"""Comparison of the engine's codes and probabilities with those of a reference run."""
