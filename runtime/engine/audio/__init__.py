"""Code2Wav streams, voice prompts, and detection of runaway speech."""
