"""What the runtime and the studio share: sound in and out, files, names, and the listening port."""
