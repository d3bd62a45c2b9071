"""Requests and their scheduling: waiting queue, slots, frames, and audio that is due."""
