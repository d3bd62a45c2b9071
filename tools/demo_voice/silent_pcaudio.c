/* Replacement for libpcaudio, which libespeak-ng requires. The real library requires PulseAudio's client.
   We only use espeak-ng's text-to-phoneme rules, so no audio is played. */
void *create_audio_device_object(void) { return 0; }
int audio_object_open(void) { return -1; }
void audio_object_close(void) {}
void audio_object_destroy(void) {}
int audio_object_drain(void) { return -1; }
int audio_object_flush(void) { return -1; }
int audio_object_write(void) { return -1; }
const char *audio_object_strerror(void) { return "no sound card"; }
