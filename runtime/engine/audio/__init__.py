"""Audio of the engine: Code2Wav streams, voice prompts, and detection of runaway speech."""
