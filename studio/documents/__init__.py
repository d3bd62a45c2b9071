"""Document import: books and letters to texts, in a separate process."""
