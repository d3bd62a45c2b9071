"""Shared pieces of the tools: texts, voices, metrics, reports, settings and servers."""
