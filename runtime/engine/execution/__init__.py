"""Execution of talker and code predictor: slots, prompts, frames and graphs."""
