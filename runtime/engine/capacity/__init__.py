"""Estimates before a checkpoint is loaded: memory, slots, speed, and problems."""
