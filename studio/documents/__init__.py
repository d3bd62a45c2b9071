"""Document import: a child process extracts the text of books and other files."""
