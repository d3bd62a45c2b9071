"""Estimates for a checkpoint before it is loaded: memory, slots, speed, and problems."""
