"""vLLM-Omni's WebSocket dialect."""
