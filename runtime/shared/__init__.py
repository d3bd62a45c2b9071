"""Runtime and studio share this room: sound in and out, files, names, and the listening port."""
