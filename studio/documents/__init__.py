"""Document import: converts books and letters to texts, in a separate process."""
