"""PDF reader, with the text rows of a page."""
