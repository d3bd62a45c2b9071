"""Comparison of the engine's codes and logits with a reference run."""
