"""Speaks the protocol ``voicewright.speech.v1`` as a state machine without input or output of its own.

Like a ``websockets`` Protocol: events go in by `receive_text`, `on_speech` and their like, and the shell
around it drains `commands` (what the process must do) and `take` (what goes to the client, in order). It
knows no asyncio, no sockets, no torch, and no clock but the one it is given. Thread: event loop.

A context is ``free -> opening -> composing -> speaking -> free`` (`UtterancePhase`) and gets exactly one terminal
message. It may be heard while it is still being composed. Sound of a cancelled context that was not taken yet is
dropped: nothing of it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime import errors
from runtime.errors import SpeechError
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    ModelCard,
    Queued,
    Reference,
    SpeechEvent,
    Started,
    StopReason,
)
from runtime.server.commands import Append, Cancel, Command, FinishText, Flush, Outgoing, Played, Submit
from runtime.server.native import replies, schema
from runtime.server.native.contexts import NativeUtterance, UtterancePhase
from runtime.server.native.replies import Reply
from runtime.server.native.send_queue import SendQueue
from runtime.server.native.voice_configs import VoiceConfigs
from runtime.server.session_timers import SessionTimers
from runtime.server.text_filter import text_filter
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import VoiceResolver
from runtime.settings import Limits

DEFAULT_CONTEXT = "default"
_MAX_MUTED = 64  # names of refused contexts whose pipelined messages are still to be ignored


class Session:
    """One client on one socket."""

    def __init__(
        self,
        *,
        limits: Limits,
        cards: Sequence[ModelCard],
        library: VoiceLibrary,
        session_id: str,
        server: str,
        clock: Callable[[], float],
    ) -> None:
        self.closed = False
        self._limits = limits
        self._clock = clock
        self._timers = SessionTimers(limits, clock)
        self._voice_configs = VoiceConfigs(limits, VoiceResolver(cards, library))
        self._muted: dict[str, None] = {}  # an ordered set
        self._open: dict[str, NativeUtterance] = {}
        self._uttered = 0
        self._commands: list[Command] = []
        self._send_queue = SendQueue()
        self._send_queue.say(replies.session_created(session_id, server, cards, limits))

    # --- what comes out

    def commands(self) -> list[Command]:
        """Return what the process must do now; each command once."""
        commands, self._commands = self._commands, []
        return commands

    def take(self) -> Outgoing | None:
        """Return what goes to the client next, or None. After a Close there is nothing more."""
        return self._send_queue.take()

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, by the session's clock; None once it is closed."""
        if self.closed:
            return None
        lulls = [one.lull.due for one in self._open.values() if one.lull and one.lull.due is not None]
        return min([self._timers.deadline(client_owes=self._client_owes), *lulls])

    @property
    def _client_owes(self) -> bool:
        """Nothing is in flight but texts that the client has yet to complete."""
        return all(one.takes_text for one in self._open.values())

    @property
    def is_congested(self) -> bool:
        """The client does not take its replies; read no more of it until it does."""
        return self._send_queue.is_congested

    # --- what goes in

    def receive_text(self, text: str) -> None:
        """Take a text message."""
        if self.closed:
            return
        self._timers.received()
        try:
            fields = schema.decode(text)
        except errors.InvalidMessage as error:
            self._end(error, 1007)
            return
        try:
            self._check_size(fields, text)
            message = schema.parse(fields)
        except errors.BadRequest as error:
            self._refuse_message(fields, error)
        else:
            self._handle(message)

    def receive_bytes(self) -> None:
        """Take a binary message; the client has none to send."""
        if not self.closed:
            self._end(errors.InvalidMessage(why="binary messages are not taken"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Take an event of the engine; one of an utterance that was cancelled meanwhile is dropped."""
        one = self._by_number(number)
        if one is None:
            return
        self._timers.stirred()
        match event:
            case Queued():
                self._send_queue.say(replies.queue(one.context_id, event))
            case Started():
                one.seed = event.seed
                self._send_queue.say(replies.audio_start(one, event))
            case AudioChunk():
                self._send_queue.sound(one, event)
            case Finished(stop_reason=StopReason.CANCELLED):
                self._ended(one, replies.context_cancelled(one))
            case Finished():
                self._ended(one, replies.audio_done(one, event))
            case Broken():
                self._fail(one, event.error)

    def on_refused(self, number: int, error: SpeechError) -> None:
        """Take the engine's refusal of a Submit."""
        if one := self._by_number(number):
            self._fail(one, error)

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Take what a Decode or a Recall brought, or the reason why there is nothing."""
        if self.closed:
            return
        error = result if isinstance(result, SpeechError) else None
        upload = self._voice_configs.decoded(number, None if isinstance(result, SpeechError) else result)
        users = [one for one in self._open.values() if one.voice.upload is upload]
        for one in users:
            if error is not None:
                self._fail(one, error)
            else:
                self._go_on(one)
        if error is not None and self._voice_configs.is_current(upload):
            self._voice_configs.drop(upload.context_id)
            if not users:
                self._refuse_name(upload.context_id or DEFAULT_CONTEXT, error)

    def tick(self) -> None:
        """Speak the sentences that nothing has followed; close the session if it was silent or has lasted for too long.

        Notice is given of the latter.
        """
        if self.closed:
            return
        for one in tuple(self._open.values()):
            if one.lull is not None and one.lull.has_come(self._clock()):
                self._flush(one.context_id)
        if (error := self._timers.expired(client_owes=self._client_owes)) is not None:
            self._end(error, error.close_code)
        elif (remaining_s := self._timers.notice()) is not None:
            self._send_queue.say(replies.session_expiring(round(remaining_s, 3)))

    def shut(self, error: SpeechError, code: int) -> None:
        """End every context and the session because the server must."""
        if not self.closed:
            self._end(error, code)

    def gone(self) -> None:
        """Give everything back: the client is not there any more."""
        for one in tuple(self._open.values()):
            self._release(one)
        self._send_queue.clear()
        self.closed = True

    # --- the client's messages

    def _handle(self, message: schema.ClientMessage) -> None:
        name = message.context_id or DEFAULT_CONTEXT
        match message:
            case schema.SessionConfig():
                self._configure(message)
            case schema.InputText():
                self._append(name, message.text)
            case schema.InputFlush():
                self._flush(name)
            case schema.InputDone():
                self._done(name)
            case schema.ContextCancel():
                self._cancel(name, message.played_ms)
            case schema.Playback():
                self._played(name, message.played_ms)
            case schema.Ping():
                self._send_queue.say(replies.pong(message.t))
            case schema.SessionClose():
                self._bye()

    def _check_size(self, fields: dict[str, Any], text: str) -> None:
        limits = self._limits
        is_config = fields.get("type") == "session.config"
        limit = limits.max_config_bytes if is_config else limits.max_message_bytes
        schema.check_size(text, limit)

    def _configure(self, config: schema.SessionConfig) -> None:
        self._muted.pop(config.context_id or DEFAULT_CONTEXT, None)
        try:
            command = self._voice_configs.accept(config)
        except errors.BadRequest as error:
            self._refuse_config(config.context_id, error)
            return
        if command is not None:
            self._commands.append(command)

    def _append(self, name: str, text: str) -> None:
        one = self._taking_text(name, "input.text")
        if one is None or not text:
            return
        one.chars += len(text)
        limit = self._limits.max_text_chars
        if one.chars > limit:
            error = errors.TextTooLong(count=one.chars, unit="characters", limit=limit, param="text")
            self._give_up(one, error)
        else:
            self._hold(one, one.filter.add(text))
            if one.lull is not None:
                one.lull.heard(text, self._clock())
            self._go_on(one)

    def _flush(self, name: str) -> None:
        one = self._open.get(name)
        if one is None or not one.takes_text:
            return
        self._hold(one, one.filter.flush())
        # Flushes in a row, or before any text, are one; so no client makes this queue long.
        if one.held and isinstance(one.held[-1], Flush):
            return
        one.held.append(Flush(one.number))
        if one.lull is not None:
            one.lull.over()
        self._go_on(one)

    def _done(self, name: str) -> None:
        one = self._taking_text(name, "input.done")
        self._muted.pop(name, None)  # this was the last message of a context that was refused
        if one is None:
            return
        one.lull = None
        self._hold(one, one.filter.finish())
        if one.phase is UtterancePhase.COMPOSING:
            one.phase = UtterancePhase.SPEAKING
            self._tell_held(one)
            self._commands.append(FinishText(one.number))
        else:
            one.phase = UtterancePhase.READING
            self._go_on(one)

    def _played(self, name: str, played_ms: float) -> None:
        if one := self._open.get(name):
            one.played_ms = played_ms
            if one.is_submitted:
                self._commands.append(Played(one.number, played_ms))

    def _cancel(self, name: str, played_ms: float | None = None) -> None:
        self._muted.pop(name, None)
        if one := self._open.get(name):
            one.played_ms = one.played_ms if played_ms is None else played_ms
            self._release(one)
            self._finish(one, replies.context_cancelled(one))

    def _bye(self) -> None:
        for name in tuple(self._open):
            self._cancel(name)
        self._send_queue.say(replies.session_done(self._uttered))
        self._close(1000)

    # --- contexts

    def _by_number(self, number: int) -> NativeUtterance | None:
        return next((one for one in self._open.values() if one.number == number), None)

    def _taking_text(self, name: str, what: str) -> NativeUtterance | None:
        """Return the context that takes text under this name, opened if it is free; None after a refusal."""
        if name in self._muted:
            return None
        one = self._open.get(name)
        if one is None:
            try:
                return self._opened(name, what)
            except errors.BadRequest as error:
                self._refuse_name(name, error)
        elif one.takes_text:
            return one
        else:
            self._refuse(errors.OutOfOrder(what=what, why="that context speaks; cancel it or await its end"))
        return None

    def _opened(self, name: str, what: str) -> NativeUtterance:
        voice = self._voice_configs.voice_for(name)
        if voice is None:
            raise errors.OutOfOrder(what=what, why="no session.config has been accepted yet")
        if len(self._open) + self._send_queue.untaken_ends >= self._limits.max_contexts:
            raise errors.TooManyContexts(limit=self._limits.max_contexts)
        config = voice.config
        one = NativeUtterance(
            self._uttered + 1, name, voice, text_filter(config.filter_name), lull=config.lull(self._limits)
        )
        if self._open and not all(each.labelled for each in (one, *self._open.values())):
            raise errors.OutOfOrder(what=what, why='plain frames carry one context at a time; set frames to "labelled"')
        self._uttered += 1
        self._voice_configs.drop(name)  # what was configured for this name serves once
        self._open[name] = one
        return one

    def _go_on(self, one: NativeUtterance) -> None:
        """Tell the engine what it can be told of the utterance by now, in the order in which it came."""
        if not one.is_submitted:
            is_complete = one.phase is UtterancePhase.READING
            if not one.has_voice or not (one.has_words or is_complete):
                return
            # A text without a word is the engine's to judge, and there is nothing to wait for.
            has_words = one.has_words
            self._commands.append(Submit(one.number, one.request(one.first_words(), open_text=has_words)))
            one.phase = UtterancePhase.SPEAKING if is_complete else UtterancePhase.COMPOSING
            self._tell_held(one)
            if is_complete and has_words:
                self._commands.append(FinishText(one.number))
        else:
            self._tell_held(one)

    def _hold(self, one: NativeUtterance, text: str) -> None:
        """Have the engine told of this text next."""
        if text:
            one.held.append(Append(one.number, text))

    def _tell_held(self, one: NativeUtterance) -> None:
        self._commands.extend(one.held)
        one.held.clear()

    def _finish(self, one: NativeUtterance, reply: Reply) -> None:
        """Free the context with its terminal message."""
        self._open.pop(one.context_id, None)
        self._timers.stirred()
        self._send_queue.say(reply, is_terminal=True)

    def _ended(self, one: NativeUtterance, reply: Reply) -> None:
        """Free a context that did not end by its client's will; what of its text may still come is ignored."""
        if one.takes_text:
            self._mute(one.context_id)
        self._finish(one, reply)

    def _fail(self, one: NativeUtterance, error: SpeechError) -> None:
        self._ended(one, replies.error(error, one.context_id, partial_audio=one.total_bytes > 0))

    def _give_up(self, one: NativeUtterance, error: SpeechError) -> None:
        """End a context because its text cannot go on, whatever of it is spoken already."""
        self._release(one)
        self._ended(one, replies.error(error, one.context_id, partial_audio=one.sent_bytes > 0))

    def _release(self, one: NativeUtterance) -> None:
        """Take a context back before its end: its slot, its sound, its name."""
        del self._open[one.context_id]
        if one.is_submitted:
            self._commands.append(Cancel(one.number))
        self._send_queue.drop_sound_of(one)

    # --- refusals

    def _refuse(self, error: SpeechError) -> None:
        """Refuse one message and leave the rest as it was."""
        self._send_queue.say(replies.error(error))

    def _refuse_name(self, name: str, error: SpeechError) -> None:
        """Refuse a context that is not open; what the client had sent for it already is ignored."""
        if name in self._open:
            self._refuse(error)
        else:
            self._mute(name)
            self._send_queue.say(replies.error(error, name), is_terminal=True)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        name = schema.context_of(fields)
        is_misnamed = name is None and fields.get("context_id") is not None
        if fields.get("type") == "session.config" and not is_misnamed:
            self._refuse_config(name, error)
        elif fields.get("type") == "input.text" and not is_misnamed:
            self._refuse_text(name or DEFAULT_CONTEXT, error)
        else:
            self._refuse(error)

    def _refuse_config(self, name: str | None, error: SpeechError) -> None:
        self._voice_configs.drop(name)
        self._refuse_name(name or DEFAULT_CONTEXT, error)

    def _refuse_text(self, name: str, error: SpeechError) -> None:
        """Refuse a part of a text, and so the text: speech with a hole in it would be worse than none."""
        one = self._open.get(name)
        if one is not None and one.takes_text:
            self._give_up(one, error)
        elif name not in self._muted:
            self._refuse_name(name, error)

    def _mute(self, name: str) -> None:
        self._muted[name] = None
        if len(self._muted) > _MAX_MUTED:
            del self._muted[next(iter(self._muted))]

    # --- the end

    def _end(self, error: SpeechError, code: int) -> None:
        for one in tuple(self._open.values()):
            self._release(one)
            partial_audio = one.sent_bytes > 0
            self._send_queue.say(replies.error(error, one.context_id, partial_audio=partial_audio), is_terminal=True)
        self._refuse(error)
        self._close(code, error.code)

    def _close(self, code: int, reason: str = "") -> None:
        self._send_queue.close(code, reason)
        self.closed = True
