"""Text of a request: text rules, division into segments, and incremental tokenization."""
