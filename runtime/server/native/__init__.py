"""Native protocol ``voicewright.speech.v1``."""
