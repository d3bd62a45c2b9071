"""Reads documents that people bring: books and letters to texts, in a process of its own."""
