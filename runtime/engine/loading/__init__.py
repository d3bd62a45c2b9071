"""Registry and loader of the engine's checkpoints."""
