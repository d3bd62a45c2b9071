"""Code2Wav streams, voices and the guards that listen to the audio."""
