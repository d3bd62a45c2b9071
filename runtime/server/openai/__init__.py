"""OpenAI's HTTP dialect."""
