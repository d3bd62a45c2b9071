"""Visitors of the studio: identification, limits and sign-in."""
