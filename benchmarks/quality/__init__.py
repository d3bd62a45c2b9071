"""Comparison of the engine's codes and probabilities with a reference run."""
