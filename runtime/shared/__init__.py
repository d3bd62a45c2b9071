"""Code shared by runtime and studio: audio in and out, files, names, and the listening port."""
