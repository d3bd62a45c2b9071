"""ElevenLabs' dialect over WebSocket and HTTP."""
