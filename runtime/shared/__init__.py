"""Code shared by the runtime and the studio: audio input and output, files, names, and the listening port."""
