"""Store of takes, scripts and preferences, each with its owner (docs/guide.md)."""
