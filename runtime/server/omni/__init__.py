"""WebSocket API of vLLM-Omni."""
