"""Speech recognition is a plug-in: it turns a recording into words where a recogniser is installed."""
