"""Text processing of requests: filter and dictionary."""
