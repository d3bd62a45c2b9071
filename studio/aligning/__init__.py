"""Alignment is a plug-in: it says when the words of a stored take are spoken, where an aligner is installed."""
