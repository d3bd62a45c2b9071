"""Text of a request: validation, splitting into segments, and incremental tokenization."""
