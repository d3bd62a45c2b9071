"""Stored pronunciation dictionaries over HTTP."""
