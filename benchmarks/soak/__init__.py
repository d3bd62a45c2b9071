"""Abuse of a runtime for minutes, with every stream compared with its solo run."""
