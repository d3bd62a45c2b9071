"""Speaks OpenAI's HTTP dialect."""
