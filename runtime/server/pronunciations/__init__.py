"""Serves kept pronunciation dictionaries over HTTP."""
