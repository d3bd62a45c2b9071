"""Native WebSocket protocol ``voicewright.speech.v1``."""
