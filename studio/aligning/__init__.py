"""Word times of stored takes, which an optional aligner plug-in measures."""
