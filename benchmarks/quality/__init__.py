"""Exactness of codes and scores."""
