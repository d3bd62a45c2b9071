"""Visitors of the studio: identity, limits and sign-in."""
