"""Text normalization and tokenizer of the published checkpoints."""
