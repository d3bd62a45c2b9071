"""Execution of the talker and code predictor on the device: slots, prompts, frames and graphs."""
