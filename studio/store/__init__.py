"""The store keeps takes, scripts and preferences, each with its owner (docs/guide.md)."""
