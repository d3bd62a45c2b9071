"""The runtime: Qwen3-TTS as a process that apps and the studio talk to."""
