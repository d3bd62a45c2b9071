"""Estimates before a load: memory, slots, speed, and what a checkpoint lacks."""
