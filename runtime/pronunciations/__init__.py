"""Stored pronunciation dictionaries: their words, versions and owners."""
