"""Keeps pronunciation dictionaries on disk: their words, their versions, whose they are. No sockets."""
