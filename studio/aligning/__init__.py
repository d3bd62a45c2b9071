"""Word times of stored recordings, which an optional aligner plug-in measures."""
