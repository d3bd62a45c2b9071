"""ElevenLabs' API over WebSocket and HTTP."""
