"""The only thread that touches the device: prompts, slots, frames, chunks."""
