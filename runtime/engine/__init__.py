"""The engine is the only room that touches the device: prompts, slots, frames, sound."""
