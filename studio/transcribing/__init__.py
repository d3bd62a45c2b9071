"""Speech recognition as a plug-in: the words of a recording, written down where something is installed that can."""
