"""Health of the engine, and orderly shutdown."""
