"""Text processing of requests: text filters and pronunciation dictionaries."""
