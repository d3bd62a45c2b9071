"""Word alignment by plug-ins: times of the words of a stored take, if an aligner is installed."""
