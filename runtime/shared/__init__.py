"""Code that the runtime and the studio share: audio, files, names, and the server's port."""
