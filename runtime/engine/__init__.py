"""Engine: prompts, slots, frames and audio. No other package uses the device."""
