"""Exactness of codes and scores, and word errors."""
