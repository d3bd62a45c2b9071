"""Storage of takes, scripts and preferences, separated by owner (docs/guide.md)."""
