"""Document import: extracts the text of books and other files in a child process."""
