"""Modules that the runtime and the studio share: audio, files, names and network ports."""
