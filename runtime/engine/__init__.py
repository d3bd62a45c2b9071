"""Engine: builds prompts, generates codec frames and decodes audio. No other package uses the device."""
