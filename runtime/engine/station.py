"""One checkpoint at work: who is read in, who speaks, whose sound is made. Engine thread, but for what says lane."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device import Device
from runtime.device.opening import choose_sound_dtype
from runtime.engine.codec import SoundStreams
from runtime.engine.feed import Feed
from runtime.engine.job import Job
from runtime.engine.lane import SoundLane, Work
from runtime.engine.lobby import Lobby
from runtime.engine.prefixes import Prefixes
from runtime.engine.prompt import Utterance, build_prompt
from runtime.engine.runaway import Watch, spent_after
from runtime.engine.runner import FrameRunner
from runtime.engine.scheduler import BACKLOG, ENDLESS, SCARCE, Chunk, Pace, Rows, Scheduler, Slots
from runtime.engine.slots import fill_in
from runtime.engine.text import frame_budget
from runtime.engine.voices import Voices
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.checkpoint import Checkpoint
from runtime.request import SAMPLE_RATE, AudioChunk, Guard, Mode, Sampling, Started, StopReason
from runtime.settings import EngineSettings, Limits, ModeSettings

log = logging.getLogger(__name__)
Clock = Callable[[], float]
Codes = NDArray[np.int64]

CPU_SOUND_WORK = 4  # row-frames a call: 35 ms of the demo voice, and more at once are no cheaper each
DEVICE_SOUND_WORK = 512


@dataclass(frozen=True, slots=True)
class Sound:
    """What the lane made of a row's chunk: None where it is not finite, and fewer frames where a guard struck."""

    pcm: bytes | None
    frames: int
    guard: Guard | None = None


class Station:
    """A turn of the engine calls collect, retire, admit, read, frames; sound goes to the lane whenever some is due."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        dtype: torch.dtype,
        settings: EngineSettings,
        modes: Mapping[Mode, ModeSettings],
        limits: Limits,
        lane: SoundLane,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.checkpoint, self.slots, self.modes, self.clock = checkpoint, settings.max_slots, modes, clock
        self.length = min(settings.max_model_len, checkpoint.config.talker.max_position_embeddings)
        self.runner = FrameRunner(checkpoint, device, dtype, self.slots, self.length, settings.prompt_piece)
        tokenizer = checkpoint.speech_tokenizer
        self.samples_per_frame = tokenizer.config.code2wav.samples_per_frame
        self.frame_s = self.samples_per_frame / SAMPLE_RATE
        self.streams = SoundStreams(
            tokenizer.code2wav, self.slots, device, choose_sound_dtype(settings.sound_dtype, device)
        )
        self.scheduler = Scheduler(
            frame_s=self.frame_s,
            lead_cap_s=settings.lead_cap_s,
            reader_frames=max(2, round(settings.reader_s / self.frame_s)),
            sound_work=settings.sound_work
            or (CPU_SOUND_WORK if device.torch_device.type == "cpu" else DEVICE_SOUND_WORK),
        )
        self.guarded = settings.guard
        self.voices = Voices(checkpoint, settings.prompt_cache)
        self.prefixes = Prefixes(settings.prompt_cache)
        self.lobby = Lobby(self.voices, self.slots, limits.queue_s, wake)
        self.holders: dict[int, Job] = {}  # by slot
        self.reading: deque[Job] = deque()  # holders whose prompt is not read to the end
        self.rows = Rows(self.slots)
        # Codes of the frames that have no sound yet, a ring a slot.
        self.codes: Codes = np.zeros((self.slots, BACKLOG, checkpoint.config.talker.num_code_groups), np.int64)
        self.pace = Pace()
        self._lane, self._wake = lane, wake
        self._withdrawn = False  # work of others went with that of a request that ended, and must be offered again
        self._sounded: deque[tuple[Chunk, list[Job], list[Sound] | None, float]] = deque()  # filled by the lane

    def warm(self) -> None:
        """Run what requests run once, so that the first of them does not pay for what is only slow at first."""
        arena, config = self.runner.arena, self.checkpoint.config
        speaker = next(iter(config.talker.spk_id), None)
        utterance = Utterance("A", Mode.CUSTOM_VOICE, config.layouts[0], "auto", speaker)
        with torch.inference_mode():
            prompt = build_prompt(utterance, config, self.checkpoint.text_tokenizer, self.checkpoint.talker)
        slot = arena.take(fill_in(Sampling(), config.generation), 0, prompt.trailing)
        self.runner.prefill(slot, prompt, 0)
        self.runner.step(np.array([slot]))
        self.streams.prepare()
        self.streams.open(slot)
        size = 1
        while size <= min(self.scheduler.sound_work, max(mode.max_chunk_frames for mode in self.modes.values())):
            codes = torch.zeros((1, size, config.talker.num_code_groups), dtype=torch.int64)
            self.streams.decode([slot], codes)
            size *= 2
        arena.give_back(slot)

    @property
    def busy(self) -> bool:
        return bool(self.holders) or len(self.lobby) > 0

    # --- what clients do

    def enter(self, job: Job) -> None:
        self.lobby.enter(job, self.clock())

    def change_text(self, ticket: int, change: Callable[[Feed], None]) -> None:
        """More text, or its end."""
        job = self.lobby.find(ticket) or self._holder(ticket)
        if job is None or job.feed.closed:
            return
        try:
            change(job.feed)
        except SpeechError as error:
            self.lobby.leave(ticket)
            self.end(job, error)
            return
        if job.slot < 0:
            self.lobby.look(job, self.clock())
        elif job.resting:
            self._go_on(job)
        elif job.feed.by_token:
            self._grow(job)

    def taken(self, ticket: int, samples: int) -> None:
        if (job := self._holder(ticket)) is not None:
            self.rows.taken[job.slot] = samples // self.samples_per_frame

    def played(self, ticket: int, ms: float) -> None:
        """The listener's own word on how much it still has to hear."""
        job = self._holder(ticket)
        if job is not None and job.first_sound is not None:
            left_s = float(self.rows.sent[job.slot]) * self.frame_s - ms / 1000
            self.rows.dry_at[job.slot] = self.clock() + max(0.0, left_s)

    def cancel(self, ticket: int) -> None:
        """End a request wherever it is; its sink hears of nothing but the end after this."""
        job = self.lobby.leave(ticket) or self._holder(ticket)
        if job is not None:
            self.end(job, StopReason.CANCELLED)

    # --- the turn

    def collect(self) -> None:
        """Write down the sound that the lane has handed out, and give it more."""
        if not self._sounded:
            return
        while self._sounded:
            chunk, jobs, sounds, at = self._sounded.popleft()
            # Who was cancelled meanwhile has lost its slot, perhaps to another.
            current = [index for index, job in enumerate(jobs) if self.holders.get(job.slot) is job]
            frames = np.array([chunk.size if sounds is None else sounds[index].frames for index in current], np.int64)
            starved = self.scheduler.hand_out(self.rows, chunk.slots[current], frames, at)
            for was_dry, index in zip(starved, current, strict=True):
                job, sound = jobs[index], None if sounds is None else sounds[index]
                job.underruns += int(was_dry)
                job.first_sound = job.first_sound or at
                if sound is None or not job.opened:
                    self.end(job, GenerationFailed())
                elif sound.pcm is None:
                    self.end(job, NonFiniteOutput())
                elif sound.guard is not None:
                    self._stop(job, sound.guard, chunk.size - sound.frames)
        self.sound()

    def retire(self) -> None:
        """End who has nothing left to be heard."""
        rows = self.rows
        for slot in np.flatnonzero(rows.ended & (rows.made == rows.sent) & ~rows.sounding):
            job = self.holders[int(slot)]
            self.end(job, job.cut_short or StopReason.EOS)

    def admit(self) -> None:
        """Give free slots to who waits longest; tell the others their place when it has changed."""
        now = self.clock()
        for job, error in self.lobby.refresh(now):
            self.end(job, error)
        line = self.lobby.line
        while line and self.runner.arena.free:
            self._begin(line.next(), now)
        for job, error in self.lobby.impatient(now):
            self.end(job, error)
        self.lobby.tell_places()

    def read(self) -> bool:
        """Read prompts, a bounded number of pieces; the last piece of one ends in its first frame."""
        worked = False
        for _ in range(max((self.modes[job.request.mode].prefills for job in self.reading), default=0)):
            if not self.reading:
                break
            self._read_piece(self.reading[0])
            worked = True
        return worked

    def frames(self) -> bool:
        """One frame for every row that may run, all in one batch."""
        began = self.clock()
        is_scarce = bool(self.lobby.line) or len(self.holders) > max(1, SCARCE * self.slots)
        slots = self.scheduler.runnable(self.rows, began, is_scarce=is_scarce)
        if not len(slots):
            if self._withdrawn:
                self.sound()
            return False
        try:
            result = self.runner.step(slots).result()
        except Exception:
            log.exception("a frame of %d rows failed", len(slots))
            for slot in slots:
                self.end(self.holders[int(slot)], GenerationFailed())
            return True
        self.pace.turn_s = self.clock() - began
        self._keep(slots, result.codes, result.ended, result.finite)
        self.sound()
        return True

    def sound(self) -> None:
        """Leave to the lane what is due now, in place of what waited there."""
        self._withdrawn = False
        self._lane.offer(self, self._works)

    def end(self, job: Job, outcome: StopReason | SpeechError) -> None:
        """Free whatever the request holds and say its last word."""
        now = self.clock()
        if job.slot >= 0:
            with self._lane.lock:  # nothing of it may begin between these lines
                job.silenced = True
                self._lane.withdraw(self)
                self._withdrawn = True
                self.rows.clear(job.slot)
            del self.holders[job.slot]
            if job.prompt is not None:
                self.reading.remove(job)
            self.runner.arena.give_back(job.slot)
            self.lobby.line.held(now - job.admitted)
        stats = job.stats(now, self.frame_s, job.samples // self.samples_per_frame)
        job.end(outcome, stats)
        log.info("request %d ended: %s", job.ticket, job.describe(outcome, stats))

    def end_all(self, error: SpeechError) -> None:
        """End everybody for a reason that is not the requests' own."""
        for job in [*self.lobby.empty(), *self.holders.values()]:
            self.end(job, error)

    # --- parts

    def _begin(self, job: Job, now: float) -> None:
        """Take a slot for a request, and its first part up. A request that fails here fails alone."""
        admission, mode = job.admission, self.modes[job.request.mode]
        job.admitted = now
        job.slot = self.runner.arena.take(admission.settings, job.seed, [], holds_end=job.request.holds_end)
        self.holders[job.slot] = job
        rows = self.rows
        rows.clear(job.slot)
        rows.acknowledged[job.slot] = job.request.acknowledged
        rows.dry_at[job.slot] = job.asked  # whose text came first is served first
        rows.first_chunk[job.slot] = job.request.first_chunk_frames or mode.first_chunk_frames
        rows.largest_chunk[job.slot] = mode.max_chunk_frames
        rows.batch[job.slot] = mode.sound_batch
        job.sink(Started(seed=job.seed, checkpoint=self.checkpoint.name, notes=admission.notes))
        self._next_part(job)

    def _next_part(self, job: Job) -> None:
        """Take the next part of the text up; its prompt is read from the next turn on."""
        feed, tokenizer = job.feed, self.checkpoint.text_tokenizer
        job.before = int(self.rows.made[job.slot])
        try:
            if feed.by_token:
                body = feed.take_tokens()
                plan = job.admission.plan_open(body, tokenizer)
                if feed.closed:
                    plan = job.admission.plan(feed.spoken, tokenizer, must_fit=False)
                    plan = replace(plan, utterance=replace(plan.utterance, body=tuple(body)))
                job.tokens, job.spent_after = len(body), 0
            else:
                text = feed.parts.popleft()
                plan = job.admission.plan(text, tokenizer, job.before, must_fit=False)
                job.spent_after = spent_after(text)
            with torch.inference_mode():
                utterance = replace(plan.utterance, voice=job.voice)
                prompt = build_prompt(utterance, self.checkpoint.config, tokenizer, self.checkpoint.talker)
            self.runner.arena.restart(job.slot, prompt.trailing, is_open=utterance.is_open)
        except SpeechError as error:
            self.end(job, error)
            return
        except Exception:
            log.exception("the prompt of request %d failed", job.ticket)
            self.end(job, GenerationFailed())
            return
        job.plan, job.prompt, job.read, job.resting = plan, prompt, 0, False
        if prompt.key and (prefix := self.prefixes.get(prompt.key)) is not None:
            self.runner.arena.copy_prefix(job.slot, prefix)
            job.read = prefix.length
        job.parts += 1
        job.prompt_tokens += len(prompt.embeds)
        job.watch = Watch()
        self.rows.limit[job.slot] = job.before + plan.limit
        self.rows.text[job.slot] = job.before + int(self.runner.arena.text_frames[job.slot])
        self.reading.append(job)

    def _read_piece(self, job: Job) -> None:
        prompt = job.prompt
        assert prompt is not None
        try:
            job.read, pending = self.runner.prefill(job.slot, prompt, job.read)
            first = None if pending is None else pending.result()
        except Exception:
            log.exception("the prefill of request %d failed", job.ticket)
            self.end(job, GenerationFailed())
            return
        if first is None:
            return
        if prompt.key and first.finite.all():
            self.prefixes.keep(prompt.key, lambda: self.runner.arena.prefix_of(job.slot, prompt.constant))
        self.reading.remove(job)
        job.prompt = None
        job.prefilled = job.prefilled or self.clock()
        self.rows.speaking[job.slot] = True
        self._keep(np.array([job.slot]), first.codes, first.ended, first.finite)
        self.sound()

    def _keep(self, slots: Slots, codes: Codes, ended: NDArray[np.bool_], finite: NDArray[np.bool_]) -> None:
        """Keep every row's new frame until its sound is made; tell who has none."""
        rows, good = self.rows, finite & ~ended
        kept = slots[good]
        self.codes[kept, rows.made[kept] % BACKLOG] = codes[good]
        rows.made[kept] += 1
        for slot in slots[~finite]:
            self.end(self.holders[int(slot)], NonFiniteOutput())
        for slot in slots[finite & ended]:
            self._part_ends(self.holders[int(slot)], StopReason.EOS)
        for slot in kept[rows.made[kept] >= rows.limit[kept]]:
            job = self.holders[int(slot)]
            assert job.plan is not None
            guard = Guard.BUDGET if job.plan.at_limit is StopReason.RUNAWAY else None
            self._part_ends(job, job.plan.at_limit, guard)

    def _part_ends(self, job: Job, reason: StopReason, guard: Guard | None = None) -> None:
        """A part made its last frame: go on with the next, rest until there is one, or speak no more."""
        self.rows.speaking[job.slot] = False
        job.guard = job.guard or guard
        if reason is not StopReason.EOS:
            job.cut_short = reason
        asked = job.admission.asked
        if asked is not None and self.rows.made[job.slot] >= asked:
            self.rows.ended[job.slot] = True
            return
        job.resting = True
        self._go_on(job)

    def _go_on(self, job: Job) -> None:
        """Take up what there is of the text for a request that rests; without an end of the text it rests on."""
        if job.feed.by_token:
            # Its one part is over, whatever else is said.
            self.rows.ended[job.slot] = True
        elif job.feed.parts:
            self._next_part(job)
        elif job.feed.closed:
            self.rows.ended[job.slot] = True
        else:
            self.rows.text[job.slot] = self.rows.made[job.slot]  # what was said so far is not held back

    def _grow(self, job: Job) -> None:
        """Tokens for a part that is being spoken."""
        arena, slot = self.runner.arena, job.slot
        tokens = job.feed.take_tokens()
        job.tokens += len(tokens)
        if job.feed.closed:
            arena.append_text(slot, [*tokens, self.checkpoint.config.tts_eos_token_id])
            arena.close_text(slot)
            budget = job.before + frame_budget(job.feed.spoken)
            if job.admission.asked is None and budget <= self.rows.limit[slot] and job.plan is not None:
                job.plan = replace(job.plan, at_limit=StopReason.RUNAWAY)
                self.rows.limit[slot] = max(budget, int(self.rows.made[slot]) + 1)
        elif tokens:
            arena.append_text(slot, tokens)
        self.rows.text[slot] = min(job.before + int(arena.text_frames[slot]), ENDLESS)

    def _stop(self, job: Job, guard: Guard, left_out: int) -> None:
        """End a part whose sound the lane has cut off, because it went on in circles or in silence after its text."""
        rows, slot = self.rows, job.slot
        if (
            job.before >= rows.sent[slot] + left_out
        ):  # the next part has begun meanwhile and stands behind what is left out
            rows.sent[slot] += left_out
            job.guard = job.guard or guard
            return
        rows.made[slot] = rows.sent[slot]
        if rows.ended[slot]:  # it came to its end in the same moment
            job.guard, job.cut_short = job.guard or guard, StopReason.RUNAWAY
        else:
            self._part_ends(job, StopReason.RUNAWAY, guard)

    def _spent_from(self, job: Job) -> int:
        """The frame from which on the part's text has been spoken, as far as the number of frames tells."""
        if not job.feed.by_token:
            return job.before + job.spent_after
        return job.before + max(job.tokens, spent_after(job.feed.spoken)) if job.feed.closed else ENDLESS

    def _holder(self, ticket: int) -> Job | None:
        return next((job for job in self.holders.values() if job.ticket == ticket), None)

    # --- the lane

    def _works(self) -> list[Work]:
        """What is due, most urgent first. Under the lane's lock."""
        chunks = self.scheduler.sound(self.rows, self.clock(), self.pace)
        return [Work((not chunk.is_first, chunk.deadline), partial(self._freeze, chunk)) for chunk in chunks]

    def _freeze(self, chunk: Chunk) -> Callable[[], None]:
        """Copy what a chunk needs, and return its making. Under the lane's lock."""
        at = self.rows.sent[chunk.slots][:, None] + np.arange(chunk.size)
        codes = self.codes[chunk.slots[:, None], at % BACKLOG]
        jobs = [self.holders[int(slot)] for slot in chunk.slots]
        spent = [self._spent_from(job) - int(first) for job, first in zip(jobs, at[:, 0], strict=True)]
        self.rows.sounding[chunk.slots] = True
        return partial(self._make_sound, chunk, jobs, codes, spent)

    def _make_sound(self, chunk: Chunk, jobs: list[Job], codes: Codes, spent: list[int]) -> None:
        """Decode and hand out at once; ``spent``: from which frame on each row's text is. Thread: lane."""
        sounds: list[Sound] | None = None
        began = self.clock()
        try:
            opened = [self._open(job) for job in jobs]
            slots = [job.slot for job, is_open in zip(jobs, opened, strict=True) if is_open]
            made = iter(self.streams.decode(slots, torch.from_numpy(codes[opened])) if slots else ())
            pcms = [next(made) if is_open else None for is_open in opened]
            sounds = [self._guard(*row) for row in zip(jobs, codes, pcms, spent, strict=True)]
        except Exception:
            log.exception("sound of %d chunks failed", len(jobs))
        for job, row, sound in zip(jobs, codes, sounds or [], strict=bool(sounds)):
            with self._lane.lock:  # so that its end cannot be said between these lines
                if sound.pcm is not None and not job.silenced:
                    job.sink(AudioChunk(pcm=sound.pcm, codes=row[: sound.frames], first_sample=job.samples))
                    job.samples += len(sound.pcm) // 2
        now = self.clock()
        self.pace.sound_s = (now - began) / (chunk.size * len(jobs))
        self._sounded.append((chunk, jobs, sounds, now))
        self._wake()

    def _guard(self, job: Job, codes: Codes, pcm: bytes | None, spent: int) -> Sound:
        """Cut sound off where it has gone on in circles or in silence for too long after its text. Thread: lane."""
        size, start = len(codes), max(0, spent)
        if pcm is None or not self.guarded or start >= size:
            return Sound(pcm, size)
        frame_bytes = 2 * self.samples_per_frame
        guard = job.watch.heard(codes[start:], pcm[start * frame_bytes :], True)
        if guard is None:
            return Sound(pcm, size)
        frames = start + job.watch.struck + 1
        return Sound(pcm[: frames * frame_bytes], frames, guard)

    def _open(self, job: Job) -> bool:
        """Begin a request's stream of sound if it has none; False where that fails. Thread: lane."""
        if not job.opened:
            try:
                self.streams.open(job.slot, job.voice)
            except Exception:
                log.exception("the stream of request %d could not be opened", job.ticket)
                return False
            job.opened = True
        return True
