"""The engine: one thread, one loop, every loaded checkpoint. The life of a request, top to bottom, is ``tick``."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Self

import torch

from runtime.device import Device, open_device
from runtime.device.opening import choose_dtype
from runtime.engine.intake import admit
from runtime.engine.station import Clock, Job, Station
from runtime.errors import EngineDead, InvalidSetting, ModeNotServed, Overloaded, SpeechError
from runtime.model.checkpoint import Checkpoint, load_checkpoint
from runtime.request import (
    Broken,
    EngineLoad,
    Finished,
    Mode,
    ModelCard,
    Reference,
    RequestStats,
    Sink,
    SpeechEvent,
    SpeechRequest,
    StopReason,
    VoicePrompt,
)
from runtime.settings import Settings

log = logging.getLogger(__name__)

SEED_BITS = 53  # drawn seeds survive a trip through a browser's numbers
IDLE_S = 0.5  # how long the thread sleeps where nobody wakes it
RETRY_AFTER_S = 2.0  # told to who finds every place taken


class Engine:
    """Speech for every loaded checkpoint.

    ``submit``, ``cancel`` and ``load`` may be called from any thread and never wait for the device; all else runs on
    the engine's thread, or, before ``start``, on the caller's (``speak``).
    """

    def __init__(
        self, stations: dict[Mode, Station], device: Device, settings: Settings, clock: Clock = time.monotonic
    ) -> None:
        self.device, self.settings, self.clock = device, settings, clock
        self._by_mode = stations
        self.stations = list({id(station): station for station in stations.values()}.values())
        self.cards = tuple(self._card(station) for station in self.stations)
        self.alive = True
        self._lock = threading.Lock()
        self._orders: deque[Job | int] = deque()  # new requests, and tickets to cancel
        self._open: dict[int, Station] = {}  # tickets that have not ended
        self._held: dict[int, tuple[SpeechRequest, Sink]] = {}
        self._renamed: dict[int, int] = {}
        self._next_ticket = 1
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, settings: Settings, progress: Callable[[int, int, str], None] | None = None) -> Self:
        """Load every checkpoint that the settings name. Takes seconds to minutes.

        ``progress`` hears how many are loaded, of how many, and what happens now.

        Raises:
            SetUpError: a checkpoint, the device or a setting cannot be used.
        """
        if settings.engine.threads:
            torch.set_num_threads(settings.engine.threads)
        device = open_device(settings.engine.device)
        dtype = choose_dtype(settings.engine.dtype, device)
        stations: dict[Mode, Station] = {}
        loaded: list[Checkpoint] = []
        for entry in settings.models:
            if progress is not None:
                progress(len(loaded), len(settings.models), "reading a checkpoint")
            wanted, reference = _split_entry(entry)
            checkpoint = load_checkpoint(reference, device.torch_device, dtype, loaded)
            loaded.append(checkpoint)
            station = Station(checkpoint, device, dtype, settings.engine, settings.modes, time.monotonic)
            for mode in _modes_of(checkpoint, wanted):
                if mode in stations:
                    raise InvalidSetting(name="model", value=repr(entry), why=f"{mode} is served by another already")
                stations[mode] = station
        return cls(stations, device, settings)

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what still waits or speaks is told that the engine is gone."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        else:
            self._end()

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        """Take a request and return its ticket; its sink hears the rest on the engine's thread.

        Thread: any.

        Raises:
            BadRequest: it cannot be served as it is; nothing was started.
            Overloaded: every slot and every waiting place is taken.
            EngineDead: the engine has stopped.
        """
        station = self._by_mode.get(request.mode)
        if station is None:
            raise ModeNotServed(param="task_type", mode=request.mode, known=", ".join(self._by_mode))
        if request.open_text:
            with self._lock:
                ticket = self._next_ticket
                self._next_ticket += 1
                self._held[ticket] = (request, sink)
            return ticket
        admission = admit(request, station.checkpoint, self.settings.limits, station.length)
        seed = secrets.randbits(SEED_BITS) if request.seed is None else request.seed
        with self._lock:
            if not self.alive:
                raise EngineDead
            engine = self.settings.engine
            waiting = sum(other is station for other in self._open.values()) - engine.max_slots
            if waiting >= engine.max_waiting:
                raise Overloaded(slots=engine.max_slots, waiting=waiting, retry_after_s=RETRY_AFTER_S)
            ticket = self._next_ticket
            self._next_ticket += 1
            self._open[ticket] = station
            self._orders.append(
                Job(
                    ticket=ticket,
                    admission=admission,
                    seed=seed,
                    sink=self._closing_sink(ticket, sink),
                    submitted=self.clock(),
                )
            )
        self._wake.set()
        return ticket

    def append(self, ticket: int, text: str) -> None:
        """More text of a request with ``open_text``. Thread: any."""
        with self._lock:
            if (held := self._held.get(ticket)) is not None:
                self._held[ticket] = (replace(held[0], text=held[0].text + text), held[1])

    def flush(self, ticket: int) -> None:
        """Speak what there is now. Thread: any."""

    def finish_text(self, ticket: int) -> None:
        """The text is complete. Thread: any."""
        with self._lock:
            held = self._held.pop(ticket, None)
        if held is None:
            return
        request, sink = held
        try:
            self._renamed[ticket] = self.submit(replace(request, open_text=False), sink)
        except SpeechError as error:
            sink(Broken(error, RequestStats()))

    def taken(self, ticket: int, samples: int) -> None:
        """So many samples in all have left for the listener. Thread: any."""

    def played(self, ticket: int, ms: float) -> None:
        """The listener has heard so much in all. Thread: any."""

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        """Make the prompt of a reference. Thread: any."""
        station = self._by_mode.get(mode)
        if station is None:
            raise ModeNotServed(param="task_type", mode=mode, known=", ".join(self._by_mode))
        checkpoint = station.checkpoint
        admit(SpeechRequest(text="A", mode=mode, reference=reference), checkpoint, self.settings.limits, station.length)

        def make() -> None:
            voice = station._clone(reference)
            codes = None if voice.codes is None else voice.codes.numpy()
            done(VoicePrompt(fingerprint=checkpoint.fingerprint, x_vector=voice.x_vector.numpy(), codes=codes))

        threading.Thread(target=make, daemon=True).start()

    def cancel(self, ticket: int) -> None:
        """End a request within a frame; unknown and ended tickets are ignored. Thread: any."""
        with self._lock:
            held = self._held.pop(ticket, None)
        if held is not None:
            held[1](Finished(stop_reason=StopReason.CANCELLED, stats=RequestStats()))
        self._orders.append(self._renamed.pop(ticket, ticket))
        self._wake.set()

    def load(self) -> EngineLoad:
        """How busy the engine is. Thread: any."""
        with self._lock:
            open_ = list(self._open.values())
        slots = self.settings.engine.max_slots
        active = sum(min(slots, open_.count(station)) for station in self.stations)
        return EngineLoad(slots=slots * len(self.stations), active=active, waiting=len(open_) - active)

    def speak(self, request: SpeechRequest) -> Iterator[SpeechEvent]:
        """Serve one request on the caller's thread, without ``start``: for the command line and tests.

        Raises:
            BadRequest: it cannot be served as it is.
        """
        events: deque[SpeechEvent] = deque()
        ticket = self.submit(request, events.append)
        try:
            while ticket in self._open or events:
                while events:
                    yield events.popleft()
                self.tick()
        finally:  # who stops listening frees the slot
            self.cancel(ticket)
            self._take_orders()

    def tick(self) -> bool:
        """One turn for every checkpoint; returns whether there is more to do. Thread: engine."""
        self._take_orders()
        for station in self.stations:
            station.admit()
            station.sound()
            station.frames()
            station.sound()
            station.retire()
        return bool(self._orders) or any(station.busy for station in self.stations)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wake.clear()
                if not self.tick():
                    self._wake.wait(IDLE_S)
        except Exception:
            log.critical("the engine thread died", exc_info=True)
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self.alive = False
        self._take_orders()
        for station in self.stations:
            station.break_all(EngineDead())

    def _take_orders(self) -> None:
        while self._orders:
            order = self._orders.popleft()
            if isinstance(order, Job):
                self._open[order.ticket].enqueue(order)
            elif order in self._open:
                self._open[order].cancel(order)

    def _closing_sink(self, ticket: int, sink: Sink) -> Sink:
        """The client's sink, forgetting the ticket at its last event. A sink that fails ends its request only."""

        def tell(event: SpeechEvent) -> None:
            if isinstance(event, Finished | Broken):
                with self._lock:
                    self._open.pop(ticket, None)
            try:
                sink(event)
            except Exception:
                log.exception("the sink of request %d failed", ticket)
                self.cancel(ticket)

        return tell

    def _card(self, station: Station) -> ModelCard:
        config, checkpoint = station.checkpoint.config, station.checkpoint
        return ModelCard(
            name=checkpoint.name,
            modes=tuple(mode for mode, other in self._by_mode.items() if other is station),
            speakers=tuple(config.talker.spk_id),
            languages=tuple(config.talker.codec_language_id),
            layouts=config.layouts,
            takes_instruct=config.takes_instruct,
            speaks=config.speaks,
            samples_per_frame=station.samples_per_frame,
            device=self.device.name,
            dtype=str(checkpoint.talker.codec_head.weight.dtype).removeprefix("torch."),
            fingerprint=checkpoint.fingerprint,
            loaded=True,
        )


def _split_entry(entry: str) -> tuple[Mode | None, str]:
    """``[mode=]PATH_OR_ID`` as mode and reference."""
    word, separator, reference = entry.partition("=")
    if separator and word in set(Mode):
        return Mode(word), reference
    return None, entry


def _modes_of(checkpoint: Checkpoint, wanted: Mode | None) -> tuple[Mode, ...]:
    if wanted is None:
        return checkpoint.config.modes
    if wanted not in checkpoint.config.modes:
        known = ", ".join(checkpoint.config.modes)
        raise InvalidSetting(name="model", value=checkpoint.name, why=f"it serves {known}, not {wanted}")
    return (wanted,)
