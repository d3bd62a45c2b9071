"""Audio part of the engine: Code2Wav streams, cloned voices and runaway speech detection."""
