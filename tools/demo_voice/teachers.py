"""The teachers: flite and espeak-ng, called in process through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_short, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PHONES = (
    "pau", "aa", "ae", "ah", "ao", "aw", "ax", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g", "hh", "ih", "iy",
    "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v", "w", "y", "z", "zh",
)  # fmt: skip
UNKNOWN_PHONE = 255


@dataclass(frozen=True)
class Speech:
    """What a teacher said: mono float samples, and phone ends in seconds (flite only)."""

    samples: np.ndarray
    rate: int
    phones: list[tuple[str, float]]


class _Wave(ctypes.Structure):
    _fields_ = [("type", c_char_p), ("rate", c_int), ("count", c_int), ("channels", c_int),
                ("samples", POINTER(c_short))]  # fmt: skip


class _Voice(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("features", c_void_p)]


class Flite:
    """Flite's clustergen voices. Not thread-safe: one object a process."""

    def __init__(self, libraries: Path, voices: tuple[str, ...] = ("slt", "awb", "rms")) -> None:
        for name in ("libasound.so.2", "libflite.so.1", "libflite_cmulex.so.1", "libflite_usenglish.so.1"):
            ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)
        lib = self._lib = ctypes.CDLL(str(libraries / "libflite.so.1"))
        pointer, text, number = c_void_p, c_char_p, c_float
        for name, result, arguments in (
            ("flite_synth_text", pointer, [text, pointer]), ("utt_wave", POINTER(_Wave), [pointer]),
            ("feat_set_float", None, [pointer, text, number]), ("delete_utterance", None, [pointer]),
            ("utt_relation", pointer, [pointer, text]), ("relation_head", pointer, [pointer]),
            ("item_next", pointer, [pointer]), ("item_feat_string", text, [pointer, text]),
            ("item_feat_float", number, [pointer, text]),
        ):  # fmt: skip
            function = getattr(lib, name)
            function.restype = result
            function.argtypes = arguments
        lib.flite_init()
        self._voices = {}
        for voice in voices:
            library = ctypes.CDLL(str(libraries / f"libflite_cmu_us_{voice}.so.1"))
            register = getattr(library, f"register_cmu_us_{voice}")
            register.restype = c_void_p
            register.argtypes = [c_char_p]
            self._voices[voice] = register(None)

    def say(self, text: str, voice: str, f0_shift: float = 1.0, stretch: float = 1.0) -> Speech:
        """Speak one line. rms has an F0 model of its own and ignores `f0_shift`."""
        lib, handle = self._lib, self._voices[voice]
        features = ctypes.cast(handle, POINTER(_Voice)).contents.features
        lib.feat_set_float(features, b"f0_shift", f0_shift)
        lib.feat_set_float(features, b"duration_stretch", stretch)
        utterance = lib.flite_synth_text(text.encode(), handle)
        wave = lib.utt_wave(utterance).contents
        rate, samples = wave.rate, np.ctypeslib.as_array(wave.samples, (wave.count,)) / 32768.0
        phones, item = [], lib.relation_head(lib.utt_relation(utterance, b"Segment"))
        while item:
            phones.append((lib.item_feat_string(item, b"name").decode(), lib.item_feat_float(item, b"end")))
            item = lib.item_next(item)
        lib.delete_utterance(utterance)
        return Speech(samples.astype(np.float32), rate, phones)


class Espeak:
    """espeak-ng's formant voices. Not thread-safe: one object a process."""

    RATE, PITCH, RANGE = 1, 3, 4  # espeak_PARAMETER

    def __init__(self, libraries: Path) -> None:
        for name in ("libpcaudio.so.0", "libsonic.so.0"):
            ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)
        lib = self._lib = ctypes.CDLL(str(libraries / "libespeak-ng.so.1"))
        self._rate = lib.espeak_Initialize(2, 0, str(libraries).encode(), 0)
        self._parts: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(c_int, POINTER(c_short), c_int, c_void_p)

        def collect(samples, count, _events) -> int:
            if samples and count > 0:
                self._parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
            return 0

        self._callback = kind(collect)
        lib.espeak_SetSynthCallback(self._callback)

    def say(self, text: str, voice: str, pitch: int = 50, rate: int = 160, span: int = 50) -> Speech:
        """Speak one line with a voice and variant such as "en-us+f3"."""
        lib = self._lib
        if lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice!r}")
        for key, value in ((self.RATE, rate), (self.PITCH, pitch), (self.RANGE, span)):
            lib.espeak_SetParameter(key, value, 0)
        self._parts.clear()
        data = text.encode() + b"\0"
        lib.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 1, 0, 1, None, None)
        lib.espeak_Synchronize()
        samples = np.concatenate(self._parts) if self._parts else np.zeros(1, np.int16)
        return Speech(samples.astype(np.float32) / 32768.0, self._rate, [])
