"""One checkpoint at work: its arena, its streams of sound, who waits and who speaks. Engine thread only."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device import Device
from runtime.engine.codec import SoundStreams
from runtime.engine.frame import FrameResult, FrameRunner
from runtime.engine.intake import Admission
from runtime.engine.prompt import ClonedVoice, build_prompt
from runtime.engine.scheduler import ChunkPolicy
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.checkpoint import Checkpoint
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Broken,
    Finished,
    Mode,
    Queued,
    Reference,
    RequestStats,
    Sink,
    Started,
    StopReason,
)
from runtime.settings import EngineSettings, ModeSettings

log = logging.getLogger(__name__)
Clock = Callable[[], float]


@dataclass(slots=True)
class Job:
    """One request from the door to its last event."""

    ticket: int
    admission: Admission
    seed: int
    sink: Sink
    submitted: float
    place: int = -1  # in the queue, as last told
    slot: int = -1
    frames: int = 0
    pending: list[NDArray[np.int64]] = field(default_factory=list)  # codes [Q] of frames that have no sound yet
    sent: int = 0  # frames whose sound is out
    last_chunk: int = 0
    first_sound: float | None = None
    admitted: float = 0.0
    prefilled: float = 0.0
    prompt_tokens: int = 0
    stop: StopReason | None = None
    error: SpeechError | None = None

    @property
    def ended(self) -> bool:
        return self.stop is not None


class Station:
    """Each turn of the engine calls the four steps in order: admit, frames, sound, retire."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        dtype: torch.dtype,
        settings: EngineSettings,
        modes: Mapping[Mode, ModeSettings],
        clock: Clock,
    ) -> None:
        self.checkpoint, self.clock = checkpoint, clock
        self.length = min(settings.max_model_len, checkpoint.config.talker.max_position_embeddings)
        self.runner = FrameRunner(checkpoint, device, dtype, settings.max_slots, self.length, settings.prompt_piece)
        tokenizer = checkpoint.speech_tokenizer
        self.samples_per_frame = tokenizer.config.code2wav.samples_per_frame
        self.streams = SoundStreams(tokenizer.code2wav, settings.max_slots)
        self.chunks = ChunkPolicy(
            first=modes[checkpoint.config.modes[0]].first_chunk_frames,
            largest=modes[checkpoint.config.modes[0]].max_chunk_frames,
            frame_s=self.samples_per_frame / SAMPLE_RATE,
        )
        self.waiting: deque[Job] = deque()
        self.speaking: dict[int, Job] = {}  # by slot

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.speaking)

    def enqueue(self, job: Job) -> None:
        self.waiting.append(job)

    def cancel(self, ticket: int) -> None:
        """End a request wherever it is; its sink hears of nothing but the end after this."""
        for job in self.waiting:
            if job.ticket == ticket:
                self.waiting.remove(job)
                job.stop = StopReason.CANCELLED
                self._say_end(job)
                return
        for job in self.speaking.values():
            if job.ticket == ticket:
                job.stop = StopReason.CANCELLED
                job.pending.clear()

    def admit(self) -> None:
        """Give free slots to who waits longest; tell the others their place when it has changed."""
        while self.waiting and self.runner.arena.free:
            self._begin(self.waiting.popleft())
        for place, job in enumerate(self.waiting):
            if job.place != place:
                job.place = place
                job.sink(Queued(place))

    def frames(self) -> None:
        """One frame for every request that speaks, all in one batch."""
        slots = [slot for slot, job in self.speaking.items() if not job.ended]
        if not slots:
            return
        try:
            result = self.runner.step(np.array(slots))
        except Exception:
            log.exception("a frame of %d rows failed", len(slots))
            for slot in slots:
                self._break(self.speaking[slot], GenerationFailed())
            return
        self._take(slots, result)

    def sound(self) -> None:
        """The next chunk of every request that has frames enough for one, batched by size."""
        due = [(job, size) for job in self.speaking.values() if (size := self._due(job))]
        if not due:
            return
        chunks = [(job.slot, torch.from_numpy(np.stack(job.pending[:size]))) for job, size in due]
        try:
            sounds = self.streams.decode(chunks)
        except Exception:
            log.exception("sound of %d chunks failed", len(chunks))
            for job, _ in due:
                self._break(job, GenerationFailed())
            return
        for (job, size), (_, codes), pcm in zip(due, chunks, sounds, strict=True):
            if pcm is None:
                self._break(job, NonFiniteOutput())
                continue
            del job.pending[:size]
            job.first_sound = job.first_sound or self.clock()
            job.sink(AudioChunk(pcm=pcm, codes=codes.numpy(), first_sample=job.sent * self.samples_per_frame))
            job.sent += size
            job.last_chunk = size

    def retire(self) -> None:
        """Free the slots of who has ended and has nothing left to be heard."""
        for slot, job in list(self.speaking.items()):
            if job.ended and not job.pending:
                del self.speaking[slot]
                self.runner.arena.give_back(slot)
                self._say_end(job)

    def break_all(self, error: SpeechError) -> None:
        """End everything that waits or speaks, for a reason that is not the requests' own."""
        for job in [*self.waiting, *self.speaking.values()]:
            self._break(job, error)
            self._say_end(job)
        self.waiting.clear()
        self.speaking.clear()

    def _begin(self, job: Job) -> None:
        """Prompt, slot, prefill, first frame. A request that fails here fails alone."""
        job.admitted = self.clock()
        checkpoint, admission = self.checkpoint, job.admission
        try:
            utterance = admission.utterance
            if admission.reference is not None:
                utterance = replace(utterance, voice=self._clone(admission.reference))
            with torch.inference_mode():
                prompt = build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)
        except Exception:
            log.exception("the prompt of request %d failed", job.ticket)
            self._break(job, GenerationFailed())
            self._say_end(job)
            return
        job.prompt_tokens = len(prompt.embeds)
        job.slot = self.runner.arena.take(admission.settings, job.seed, prompt.trailing)
        self.speaking[job.slot] = job
        job.sink(Started(seed=job.seed, checkpoint=checkpoint.name, notes=admission.notes))
        try:
            self.streams.open(job.slot, utterance.voice.codes if utterance.voice else None)
            start, result = 0, None
            while result is None:
                start, result = self.runner.prefill(job.slot, prompt, start)
        except Exception:
            log.exception("the prefill of request %d failed", job.ticket)
            self._break(job, GenerationFailed())
            return
        job.prefilled = self.clock()
        self._take([job.slot], result)

    @torch.inference_mode()
    def _clone(self, reference: Reference) -> ClonedVoice:
        """The vectors of a reference: x-vector, and codes where its text is known (facts 3.5, 3.6)."""
        encoder = self.checkpoint.speaker_encoder
        assert encoder is not None, "intake lets Base requests only to Base checkpoints"
        samples = torch.from_numpy(reference.samples).to(encoder.fc.weight.device)
        if reference.x_vector_only:
            return ClonedVoice(encoder(samples))
        codes = self.checkpoint.speech_tokenizer.encoder(samples)
        return ClonedVoice(encoder(samples), codes, reference.text)

    def _take(self, slots: list[int], result: FrameResult) -> None:
        """Hand each row's new frame to its request, or end it."""
        for index, slot in enumerate(slots):
            job = self.speaking[slot]
            if not result.finite[index]:
                self._break(job, NonFiniteOutput())
            elif result.ended[index]:
                job.stop = StopReason.EOS
            else:
                job.pending.append(result.codes[index])
                job.frames += 1
                if job.frames == job.admission.max_frames:
                    job.stop = job.admission.at_limit

    def _due(self, job: Job) -> int:
        """Frames of the chunk that is ready to be made, 0 if none is."""
        if job.ended:
            return min(len(job.pending), self.chunks.largest)
        size = self.chunks.next_size(job.last_chunk, self._lead(job))
        return size if len(job.pending) >= size else 0

    def _lead(self, job: Job) -> float:
        """Seconds of sound sent and not yet played, if playback began at once and never paused."""
        if job.first_sound is None:
            return 0.0
        return job.sent * self.chunks.frame_s - (self.clock() - job.first_sound)

    def _break(self, job: Job, error: SpeechError) -> None:
        job.stop, job.error = StopReason.ERROR, error
        job.pending.clear()

    def _say_end(self, job: Job) -> None:
        stats = self._stats(job)
        if job.error is not None:
            job.sink(Broken(job.error, stats))
        elif job.stop is not None:
            job.sink(Finished(stop_reason=job.stop, stats=stats))
        log.info(
            "request %d %s: %d frames, ttfa %s ms, queue %.0f ms, rtf %s",
            job.ticket,
            job.stop,
            job.frames,
            "-" if stats.ttfa_ms is None else f"{stats.ttfa_ms:.0f}",
            stats.queue_ms,
            "-" if stats.rtf is None else f"{stats.rtf:.2f}",
        )

    def _stats(self, job: Job) -> RequestStats:
        now = self.clock()
        admitted = job.admitted or now
        return RequestStats(
            queue_ms=1000 * (admitted - job.submitted),
            prefill_ms=1000 * max(0.0, job.prefilled - admitted),
            ttfa_ms=None if job.first_sound is None else 1000 * (job.first_sound - job.submitted),
            total_ms=1000 * (now - job.submitted),
            prompt_tokens=job.prompt_tokens,
            frames=job.sent,
            audio_s=job.sent * self.chunks.frame_s,
        )
