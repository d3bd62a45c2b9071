"""Text of a request: rules, splitting, and tokens as they arrive."""
