"""Runtimes behind the studio: a supervised child process, or one that someone else started."""
