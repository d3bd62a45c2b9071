"""Storage of recordings, scripts and preferences, separate for each owner (docs/guide.md)."""
