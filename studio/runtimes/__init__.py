"""Runtimes (speech engine processes) that the studio uses.

A runtime is a child process that the studio supervises, or an external process.
"""
