"""Audio modules of the engine: Code2Wav, cloned voices, and detection of runaway speech.

Code2Wav is the network that decodes codec frames to audio. Runaway speech is speech that continues after all text is
spoken.
"""
