"""Engine: builds prompts, generates codec frames and decodes them to audio.

No other package uses the device.
"""
