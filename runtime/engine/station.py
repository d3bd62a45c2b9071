"""One checkpoint at work: who is read in, who speaks, whose sound is made. Engine thread, but for what says lane."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from runtime.device import Device
from runtime.device.interface import Track
from runtime.device.opening import choose_sound_dtype
from runtime.engine.codec import SoundStreams
from runtime.engine.feed import Feed
from runtime.engine.job import Job
from runtime.engine.lane import SoundLane
from runtime.engine.lobby import Lobby
from runtime.engine.prefixes import Prefixes
from runtime.engine.prompt import Prompt, Utterance, build_prompt
from runtime.engine.runaway import Watch, spent_after
from runtime.engine.runner import STARTS, FrameResult, FrameRunner
from runtime.engine.scheduler import BACKLOG, ENDLESS, SCARCE, Rows, Scheduler, Slots
from runtime.engine.slots import fill_in
from runtime.engine.sounding import Codes, Sounding
from runtime.engine.text import frame_budget
from runtime.engine.underway import Expect, Underway
from runtime.engine.voices import Voices
from runtime.errors import GenerationFailed, NonFiniteOutput, SpeechError
from runtime.model.checkpoint import Checkpoint
from runtime.request import SAMPLE_RATE, Guard, Mode, Sampling, Started, StopReason
from runtime.settings import EngineSettings, Limits, ModeSettings

log = logging.getLogger(__name__)
Clock = Callable[[], float]

CPU_PREFILLS = 2  # where they take as long together as one after the other, and frames wait
CPU_SOUND_WORK = 4  # row-frames a call: 35 ms of the demo voice, and more at once are no cheaper each
DEVICE_SOUND_WORK = 512
DEVICE_COMPANY = 0.125  # share of those who speak whose chunks are decoded in one call, where they can wait


class Station:
    """A turn of the engine calls collect, retire, admit, read, frames; sound goes to the lane whenever some is due."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: Device,
        dtype: torch.dtype,
        slots: int,
        length: int,
        settings: EngineSettings,
        modes: Mapping[Mode, ModeSettings],
        limits: Limits,
        lane: SoundLane,
        wake: Callable[[], None],
        expect: Expect,
        clock: Clock,
    ) -> None:
        self.checkpoint, self.device, self.slots, self.modes, self.clock = checkpoint, device, slots, modes, clock
        self.length = length
        on_cpu = device.torch_device.type == "cpu"
        self._prefills = CPU_PREFILLS if on_cpu else STARTS[-1]
        prompts = max((mode.prefills or self._prefills for mode in modes.values()), default=self._prefills)
        self.runner = FrameRunner(checkpoint, device, dtype, slots, length, settings.prompt_piece, prompts)
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
            sound_work=settings.sound_work or (CPU_SOUND_WORK if on_cpu else DEVICE_SOUND_WORK),
            company=0.0 if on_cpu else DEVICE_COMPANY,
        )
        self.voices = Voices(checkpoint, device, settings.prompt_cache)
        self.prefixes = Prefixes(settings.prompt_cache)
        self.lobby = Lobby(self.voices, self.slots, limits.queue_s, wake)
        self.holders: dict[int, Job] = {}  # by slot
        self.frames_made = 0  # of all requests since the start, as sound
        self.reading: deque[Job] = deque()  # holders whose prompt is not read to the end
        self.rows = Rows(self.slots)
        self.underway = Underway(self.rows, self.slots, device.ahead, expect, clock)
        # Codes of the frames that have no sound yet, a ring a slot.
        self.codes: Codes = np.zeros((self.slots, BACKLOG, checkpoint.config.talker.num_code_groups), np.int64)
        self.sounding = Sounding(
            *(device, self.streams, self.scheduler, self.rows, self.codes, self.holders, lane, clock, wake),
            guarded=settings.guard,
        )

    def prepare(self, tell: Callable[[str], None]) -> None:
        """Capture what the device can hold as graphs, and run everything once; ``tell`` hears how far that is."""
        try:
            if self.device.holds_graphs:
                tell(f"compiling kernels of {self.checkpoint.name}")
                self.device.rehearse([*self.runner.works(), *self.streams.graphs.works()])
            self.runner.capture(lambda done, of: tell(f"capturing graphs of {self.checkpoint.name}: {done} of {of}"))
            self.streams.prepare(lambda done, of: tell(f"capturing sound of {self.checkpoint.name}: {done} of {of}"))
        except Exception:
            log.exception("graphs of %s could not be captured; what has none is run eagerly", self.checkpoint.name)
        self.warm()

    def warm(self) -> None:
        """Run what requests run once, so that the first of them does not pay for what is only slow at first."""
        arena, config = self.runner.arena, self.checkpoint.config
        speaker = next(iter(config.talker.spk_id), None)
        utterance = Utterance("A", Mode.CUSTOM_VOICE, config.layouts[0], "auto", speaker)
        slot, read, first = arena.next_free, 0, None
        with self.runner.starting(slot):
            prompt = self._embedded(utterance)
            arena.take(fill_in(Sampling(), config.generation), 0, prompt.trailing)
        while first is None:
            read, first = self.runner.prefill(slot, prompt, read)
        first.result()
        self.runner.step(np.array([slot])).result()
        for track in (Track.FIRST_SOUND, Track.SOUND):
            with self.device.track(track):
                self.streams.open(slot)
                size = 1
                while size <= min(self.scheduler.sound_work, max(one.max_chunk_frames for one in self.modes.values())):
                    codes = torch.zeros((1, size, config.talker.num_code_groups), dtype=torch.int64)
                    self.streams.decode([slot], codes, track)
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
        else:
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
        worked = False
        for sounded in self.sounding.collect():
            worked, chunk, jobs, sounds, at = True, sounded.chunk, sounded.jobs, sounded.sounds, sounded.at
            # Who was cancelled meanwhile has lost its slot, perhaps to another.
            current = [index for index, job in enumerate(jobs) if self.holders.get(job.slot) is job]
            frames = chunk.frames if sounds is None else np.array([sound.frames for sound in sounds], np.int64)
            self.frames_made += int(frames[current].sum())
            starved = self.scheduler.hand_out(self.rows, chunk.slots[current], frames[current], at)
            for was_dry, index in zip(starved, current, strict=True):
                job, sound = jobs[index], None if sounds is None else sounds[index]
                job.underruns += int(was_dry)
                job.first_sound = job.first_sound or at
                if sound is None or not job.opened:
                    self.end(job, GenerationFailed())
                elif sound.pcm is None:
                    self.end(job, NonFiniteOutput())
                elif sound.guard is not None:
                    self._stop(job, sound.guard, int(chunk.frames[index]) - sound.frames)
        if worked:
            self.sounding.offer()

    def take_in(self) -> bool:
        """Keep the frames that the device has told of, but for those of rows that have given them up."""
        worked = False
        for told in self.underway.told():
            worked = True
            if told.result is None:
                for slot in told.slots:
                    self.end(self.holders[int(slot)], GenerationFailed())
                continue
            for slot, prompt, finite, ended in zip(
                told.slots, told.prompts, told.result.finite, told.result.ended, strict=False
            ):
                job = self.holders[int(slot)]
                if ended and job.following is not None:  # that was sound of no frame
                    job.opened, job.following = False, None
                self._begins_to_speak(job, prompt, keeps=bool(finite))
            if not told.prompts:
                self.sounding.pace.turn_s = told.took_s
            self._keep(told.slots, told.result)
        if worked:
            self.sounding.offer()
        return worked

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
        """Read a piece of some prompts at once; the last piece of one ends in its first frame."""
        if self.underway.pieces:  # on one track, after which who has come meanwhile is read together
            return False
        most = max((self.modes[job.request.mode].prefills or self._prefills for job in self.reading), default=0)
        jobs = list(self.reading)[: min(most, STARTS[-1])]
        if jobs:
            self._read_pieces(jobs)
            self.take_in()
        return bool(jobs)

    def frames(self) -> bool:
        """Begin one frame for every row that may run, all in one batch; with enough of them under way, begin none."""
        self.sounding.offer_again()
        if not self.underway.may_begin:
            return False
        began = self.clock()
        is_scarce = bool(self.lobby.line) or len(self.holders) > max(1, SCARCE * self.slots)
        is_scarce &= not self.scheduler.is_ample(self.sounding.pace)
        slots = self.scheduler.runnable(self.rows, began, is_scarce=is_scarce)
        if not len(slots):
            return False
        try:
            self.underway.frame(self.runner.step(slots), began)
        except Exception:
            log.exception("a frame of %d rows failed", len(slots))
            for slot in slots:
                self.end(self.holders[int(slot)], GenerationFailed())
            return True
        self.take_in()
        return True

    def end(self, job: Job, outcome: StopReason | SpeechError) -> None:
        """Free whatever the request holds and say its last word."""
        now = self.clock()
        if job.slot >= 0:
            with self.sounding.silencing(job):
                self.underway.give_up(job.slot)
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
        job.slot = self.runner.arena.next_free
        with self.runner.starting(job.slot):
            self.runner.arena.take(admission.settings, job.seed, None, holds_end=job.request.holds_end)
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
            utterance, read = replace(plan.utterance, voice=job.voice), 0
            with self.runner.starting(job.slot):
                prompt = self._embedded(utterance)
                self.runner.arena.restart(job.slot, prompt.trailing, is_open=utterance.is_open)
                if prompt.key and (prefix := self.prefixes.get(prompt.key)) is not None:
                    self.runner.arena.copy_prefix(job.slot, prefix)
                    read = prefix.length
        except SpeechError as error:
            self.end(job, error)
            return
        except Exception:
            log.exception("the prompt of request %d failed", job.ticket)
            self.end(job, GenerationFailed())
            return
        job.plan, job.prompt, job.read, job.resting, job.growing = plan, prompt, read, False, utterance.is_open
        job.parts += 1
        job.prompt_tokens += len(prompt.embeds)
        job.watch = Watch()
        self.rows.limit[job.slot] = job.before + plan.limit
        self.rows.text[job.slot] = job.before + int(self.runner.arena.text_frames[job.slot])
        self.reading.append(job)

    def _read_pieces(self, jobs: list[Job]) -> None:
        """Read the next piece of some prompts at once, and have the first frames made of those that are through."""
        wanted = [(job.slot, job.prompt, job.read) for job in jobs if job.prompt is not None]
        slots = np.array([job.slot for job in jobs])
        try:
            stops = self.runner.read(wanted)
            through = [stop == len(prompt.embeds) for stop, (_, prompt, _) in zip(stops, wanted, strict=True)]
            if not all(through):
                with self.device.track(Track.STARTS):
                    self.underway.pieces_of(slots[np.logical_not(through)], self.device.mark())
            if any(through):
                prompts = [prompt for (_, prompt, _), is_through in zip(wanted, through, strict=True) if is_through]
                spoken = [job for job, is_through in zip(jobs, through, strict=True) if is_through]
                self.underway.firsts(self.runner.first(slots[through], partial(self.sounding.follow, spoken)), prompts)
        except Exception:
            log.exception("the prefill of %d requests failed", len(jobs))
            if len(jobs) == 1:
                self.end(jobs[0], GenerationFailed())
            else:  # each alone: who is at fault fails again, and nobody with it
                for job in jobs:
                    self._read_pieces([job])
            return
        for job, stop, is_through in zip(jobs, stops, through, strict=True):
            job.read = stop
            if is_through:
                self.reading.remove(job)
                job.prompt = None

    def _embedded(self, utterance: Utterance) -> Prompt:
        checkpoint = self.checkpoint
        with torch.inference_mode():
            return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)

    def _begins_to_speak(self, job: Job, prompt: Prompt, *, keeps: bool) -> None:
        """A prompt was read and its first frame is known: frames may follow, and what is worth it is kept."""
        if prompt.key and keeps:
            with self.runner.starting(job.slot):
                self.prefixes.keep(prompt.key, lambda: self.runner.arena.prefix_of(job.slot, prompt.constant))
        job.prefilled = job.prefilled or self.clock()
        self.rows.speaking[job.slot] = True
        self._grow(job)

    def _keep(self, slots: Slots, told: FrameResult) -> None:
        """Keep every row's new frame until its sound is made; tell who has none."""
        rows, ended, finite = self.rows, told.ended, told.finite
        good = finite & ~ended
        kept = slots[good]
        self.codes[kept, rows.made[kept] % BACKLOG] = told.codes[good]
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
        self.underway.give_up(job.slot)
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
        """Tokens for a part whose text is open; before its first frame is known they wait in the feed."""
        arena, slot = self.runner.arena, job.slot
        if not job.growing or not self.rows.speaking[slot]:
            return
        tokens = job.feed.take_tokens()
        job.tokens += len(tokens)
        if job.feed.closed:
            arena.append_text(slot, [*tokens, self.checkpoint.config.tts_eos_token_id])
            arena.close_text(slot)
            job.growing = False
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
        if job.before >= rows.sent[slot] + left_out:  # the next part has begun, and stands behind what is left out
            rows.sent[slot] += left_out
            job.guard = job.guard or guard
            return
        rows.made[slot] = rows.sent[slot]
        if rows.ended[slot]:  # it came to its end in the same moment
            job.guard, job.cut_short = job.guard or guard, StopReason.RUNAWAY
        else:
            self._part_ends(job, StopReason.RUNAWAY, guard)

    def _holder(self, ticket: int) -> Job | None:
        return next((job for job in self.holders.values() if job.ticket == ticket), None)
