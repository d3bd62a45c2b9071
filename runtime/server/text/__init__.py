"""Processing of the text in requests: text filters and pronunciation dictionaries."""
