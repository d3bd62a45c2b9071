"""Runtimes that the studio uses: a supervised child process, or an external process."""
