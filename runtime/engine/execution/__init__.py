"""Execution of the talker and code predictor: slots, prompts, frames and graphs."""
