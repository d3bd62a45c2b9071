"""Speaks vLLM-Omni's WebSocket dialect."""
