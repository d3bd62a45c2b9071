"""HTTP routes of stored pronunciation dictionaries."""
