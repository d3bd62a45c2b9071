"""Times of the words of a stored take, if an aligner is installed as a plug-in."""
