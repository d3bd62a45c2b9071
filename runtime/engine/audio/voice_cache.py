"""Cache of encoded voices for voice cloning: x-vector, codes and Code2Wav state.

Encoding reference audio takes as long as generating many frames, so it runs on a separate thread and device stream. The
cache evicts the least recently used voice.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.engine.audio.voice_encoders import VoiceEncoders
from runtime.engine.cloned_voice import ClonedVoice, VoiceStreamState
from runtime.errors import EngineDead, GenerationFailed, SpeechError
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import SAMPLE_RATE, BlendPart, Reference, VoicePrompt

log = logging.getLogger(__name__)

WARM_S = 1.0  # Duration in seconds of the noise that the warm-up encodes.
# Minimum sine of the angle between two vectors for spherical interpolation. Vectors with a smaller sine are
# interpolated linearly.
MIN_SINE = 1e-3


def reference_key(reference: Reference) -> str:
    """Return the cache key of a voice reference: a hash of its audio, transcript and options.

    The hash takes a few milliseconds per minute of audio.
    """
    digest = hashlib.blake2b(np.ascontiguousarray(reference.samples).data, digest_size=16)
    digest.update(repr((reference.text, reference.x_vector_only)).encode(errors="surrogatepass"))
    for part in reference.blend:
        of = reference_key(part.reference).encode() if part.reference is not None else b""
        vector = b"" if part.x_vector is None else part.x_vector.tobytes()
        digest.update(repr(part.weight).encode() + of + vector)
    # The key of a reference includes its prompt, because a prompt may have been computed from other samples.
    if (prompt := reference.prompt) is not None:
        digest.update(prompt.fingerprint.encode() + prompt.x_vector.tobytes())
        digest.update(b"" if prompt.codes is None else prompt.codes.tobytes())
    return digest.hexdigest()


def blend(parts: Sequence[tuple[float, Tensor]]) -> Tensor:
    """Mix two voices: return the spherical interpolation of two x-vectors.

    The length is interpolated linearly. The direction is also interpolated linearly if both directions are nearly equal
    or opposite, because the arc between them is not defined.

    Args:
        parts: Two pairs (weight, x-vector [H]), whose weights sum to 1.
    """
    (_, first), (share, second) = parts
    lengths = first.norm(), second.norm()
    one, other = first / lengths[0].clamp(min=1e-8), second / lengths[1].clamp(min=1e-8)
    angle = torch.acos((one @ other).clamp(-1, 1))
    if angle.sin() < MIN_SINE:
        direction = (1 - share) * one + share * other
    else:
        direction = (torch.sin((1 - share) * angle) * one + torch.sin(share * angle) * other) / angle.sin()
    return direction * ((1 - share) * lengths[0] + share * lengths[1])


class VoiceCache:
    """LRU cache of the encoded voices of one checkpoint.

    Thread: `get` and `make` run on the engine thread. After `start`, `read` runs on the encoding thread.

    Args:
        compute_stream_state: Function that returns the Code2Wav state after a voice's codes. It is called within
            ``Stream.VOICES``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        capacity: int,
        compute_stream_state: Callable[[Tensor], VoiceStreamState],
    ) -> None:
        self.checkpoint = checkpoint
        self.device = device
        self.capacity = capacity
        self.encoders = None if checkpoint.speaker_encoder is None else VoiceEncoders(checkpoint, device)
        self._compute_stream_state = compute_stream_state
        self.cached_voices: OrderedDict[str, ClonedVoice] = OrderedDict()
        self.reading: dict[str, Future[ClonedVoice]] = {}
        self.reader: Executor | None = None

    def warm(self) -> None:
        """Encode one second of noise, because the first encoding of a process is slow."""
        if self.encoders is None:
            return
        self.encoders.prepare()
        noise = np.random.default_rng(0).uniform(-0.1, 0.1, round(WARM_S * SAMPLE_RATE)).astype(np.float32)
        try:
            self._read_to_speak(Reference(samples=noise, text="A"), key="")
        except Exception:  # The error is not fatal, because requests without a cloned voice can still be served.
            log.exception("the warm-up of the voice encoders failed; clones may fail")

    def start(self, prepare: Callable[[], None]) -> None:
        """Start the encoding thread.

        Without this thread, voices are encoded on the caller's thread.

        Args:
            prepare: Function that the encoding thread calls first.
        """
        if self.reader is None:
            self.reader = ThreadPoolExecutor(1, thread_name_prefix="voices", initializer=prepare)

    def close(self) -> None:
        if isinstance(self.reader, ThreadPoolExecutor):
            self.reader.shutdown(wait=False, cancel_futures=True)

    def get(self, key: str) -> ClonedVoice | None:
        """Return the cached voice of a key, or None."""
        self._store_finished()
        voice = self.cached_voices.get(key)
        if voice is not None:
            self.cached_voices.move_to_end(key)
        return voice

    def make(self, reference: Reference, key: str, done: Callable[[], None]) -> Future[ClonedVoice]:
        """Start to encode a voice reference, and return a future of the cloned voice.

        If the same voice is already being encoded, its future is returned.

        Args:
            key: Cache key, the result of `reference_key`.
            done: Function that is called after the encoding.
        """
        future = self.reading.get(key)
        if future is None:
            if self.reader is not None:
                future = self.reader.submit(self._read_to_speak, reference, key)
            else:
                future = Future()
                try:
                    future.set_result(self._read_to_speak(reference, key))
                except Exception as error:
                    future.set_exception(error)
            self.reading[key] = future
        future.add_done_callback(lambda _: done())
        return future

    def store(self, key: str, future: Future[ClonedVoice]) -> ClonedVoice:
        """Store the result of a finished encoding in the cache, and return the voice.

        Raises:
            Exception: The encoding failed.
        """
        self.reading.pop(key, None)
        voice = self.cached_voices.get(key) or future.result()
        self.cached_voices[key] = voice
        self.cached_voices.move_to_end(key)
        while len(self.cached_voices) > self.capacity:
            self.cached_voices.popitem(last=False)
        return voice

    def _store_finished(self) -> None:
        """Store the voices of finished encodings whose requests have ended, and drop failures."""
        for key, future in [(key, future) for key, future in self.reading.items() if future.done()]:
            with contextlib.suppress(Exception):
                self.store(key, future)

    def prepare(self, reference: Reference, key: str, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Encode a voice reference, and pass the voice prompt or an error to `done`.

        Thread: any; `done` runs on the encoding thread.
        """

        def read() -> None:
            try:
                prompt: VoicePrompt | SpeechError = self.prompt_of(self.read(reference, key))
            except Exception:
                log.exception("a voice prompt could not be computed")
                prompt = GenerationFailed()
            done(prompt)

        if self.reader is None:
            read()
            return
        try:
            self.reader.submit(read)
        except RuntimeError:  # The executor was shut down.
            raise EngineDead from None

    def _read_to_speak(self, reference: Reference, key: str) -> ClonedVoice:
        """Return an encoded voice including the Code2Wav state that its first audio needs."""
        voice = self.read(reference, key)
        if voice.codes is not None:
            with self.device.stream(Stream.VOICES):
                voice.stream_state = self._compute_stream_state(voice.codes)
                self.device.record_event().synchronize()
        return voice

    def read(self, reference: Reference, key: str) -> ClonedVoice:
        """Encode a voice reference to an x-vector and, if the transcript is used, to codes.

        This method does not use the cache. The encoders are described in docs/model.md 3.5 and 3.6.
        """
        with self.device.stream(Stream.VOICES):
            voice = self._read(reference, key)
            # This thread waits until the voice is encoded. Device streams that use the voice do not wait for this
            # thread's stream.
            self.device.record_event().synchronize()
        return voice

    @torch.inference_mode()
    def _read(self, reference: Reference, key: str) -> ClonedVoice:
        if reference.blend:
            vectors = [(part.weight, self._part_vector(part)) for part in reference.blend]
            return ClonedVoice(blend(vectors), None, None, key)
        assert self.encoders is not None, "only a Base checkpoint receives Base requests"
        device = self.device.torch_device
        text = None if reference.x_vector_only else reference.text
        prompt = reference.prompt
        # If a reference has no samples, its prompt was already checked when the request was admitted.
        if prompt is not None and (not len(reference.samples) or self._fits(prompt, reference)):
            codes = None if reference.x_vector_only else torch.tensor(prompt.codes).to(device)
            return ClonedVoice(torch.tensor(prompt.x_vector).to(device), codes, text, key)
        x_vector, codes = self.encoders.encode(reference.samples, x_vector_only=reference.x_vector_only)
        return ClonedVoice(x_vector, codes, text, key)

    def _part_vector(self, part: BlendPart) -> Tensor:
        if part.reference is not None:
            return self._read(part.reference, key="").x_vector.float()
        return torch.tensor(part.x_vector).to(self.device.torch_device)

    def prompt_of(self, voice: ClonedVoice) -> VoicePrompt:
        """Convert a cloned voice to a voice prompt, which clients can store and send again."""
        codes = None if voice.codes is None else voice.codes.cpu().numpy()
        return VoicePrompt(
            fingerprint=self.checkpoint.fingerprint, x_vector=voice.x_vector.float().cpu().numpy(), codes=codes
        )

    def _fits(self, prompt: VoicePrompt, reference: Reference) -> bool:
        """True if a prompt sent with a reference is complete and was computed by this checkpoint."""
        config = self.checkpoint.config
        if prompt.fingerprint != self.checkpoint.fingerprint or prompt.x_vector.shape != (config.talker.hidden_size,):
            return False
        if not np.isfinite(prompt.x_vector).all():
            return False
        if reference.x_vector_only:
            return True
        codes, samples = prompt.codes, self.checkpoint.speech_tokenizer.config.encode_downsample_rate
        frames = -(-len(reference.samples) // samples)
        if codes is None or codes.shape != (frames, config.talker.num_code_groups):
            return False
        return bool(codes.min() >= 0) and bool(
            codes.max() < self.checkpoint.speech_tokenizer.config.encoder.codebook_size
        )
