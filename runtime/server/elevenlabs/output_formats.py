"""Values of ElevenLabs' ``output_format``, with the encoder of each value."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.shared.audio.encoding import FORMATS as CODED
from runtime.shared.audio.encoding import Encoder
from runtime.shared.audio.pcm_formats import AudioWriter, PcmWriter

DEFAULT = "mp3_44100_128"

_RAW = {"pcm": "pcm_s16le", "ulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
_RAW_MEDIA = {"pcm": "audio/pcm", "ulaw": "audio/basic", "alaw": "audio/x-alaw-basic"}
_PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_MP3 = ((22_050, 32), (24_000, 48), (44_100, 32), (44_100, 64), (44_100, 96), (44_100, 128), (44_100, 192))
_OPUS_KBPS = (32, 64, 96, 128, 192)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Audio codec with a sample rate in Hz and, for MP3 and Opus, a bit rate in kbit/s."""

    codec: str
    rate: int
    kbps: int | None = None

    @property
    def name(self) -> str:
        return "_".join(str(part) for part in (self.codec, self.rate, self.kbps) if part is not None)

    @property
    def media_type(self) -> str:
        return _RAW_MEDIA.get(self.codec) or CODED[self.codec].media_type

    @property
    def has_head(self) -> bool:
        """True for WAV, whose header contains the length of the audio."""
        return self.codec == "wav"

    def writer(self, speed: float = 1.0, *, whole: bool = False) -> AudioWriter:
        """Create an encoder for one audio stream.

        Args:
            speed: Factor for the speed of the audio, where 1 is the original speed.
            whole: True to encode one complete file with the exact length in its header. Then only `finish` returns
                bytes. Raw PCM formats ignore this argument.
        """
        if self.codec not in _RAW:
            bit_rate = None if self.kbps is None else self.kbps * 1000
            return Encoder(self.codec, rate=self.rate, speed=speed, bit_rate=bit_rate, whole=whole)
        raw = PcmWriter(_RAW[self.codec], self.rate)
        return raw if speed == 1.0 else _Sped(speed, raw)


class _Sped:
    """Encoder for raw formats that changes the speed of the audio before encoding."""

    def __init__(self, speed: float, raw: PcmWriter) -> None:
        self._sped = Encoder("pcm", speed=speed)
        self._raw = raw

    def encode_pcm(self, pcm: bytes) -> bytes:
        return self._raw.encode_pcm(self._sped.encode_pcm(pcm))

    def finish(self) -> bytes:
        return self._raw.encode_pcm(self._sped.finish()) + self._raw.finish()


_ALL = (
    *(OutputFormat("mp3", rate, kbps) for rate, kbps in _MP3),
    *(OutputFormat("pcm", rate) for rate in _PCM_RATES_HZ),
    *(OutputFormat("wav", rate) for rate in _PCM_RATES_HZ),
    *(OutputFormat("opus", 48_000, kbps) for kbps in _OPUS_KBPS),
    *(OutputFormat("ulaw", 8_000), OutputFormat("alaw", 8_000)),
)
OUTPUT_FORMATS = {form.name: form for form in _ALL}
