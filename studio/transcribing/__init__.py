"""Speech recognition by plug-ins: the transcript of a recording, if a recogniser is installed."""
