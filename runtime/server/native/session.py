"""Session of the native protocol ``voicewright.speech.v1``.

Each utterance has exactly one final message. Text may be spoken before all text of the utterance has arrived. If an
utterance is cancelled, its unsent audio is discarded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

from runtime.errors import BadRequest, Busy, OutOfOrder, SpeechError, TooManyContexts
from runtime.request import SAMPLE_RATE, AudioChunk, Broken, Finished, Queued, SpeechEvent, Started, StopReason
from runtime.server.native import binary_frame, messages, schema
from runtime.server.native.contexts import NativeUtterance, ReadyTurn
from runtime.server.session.commands import Played
from runtime.server.session.dialect import Dialect
from runtime.server.session.dialogue import check_turn_text, check_turns, errors_of_turn, join_ends
from runtime.server.session.speech_fields import NO_RECORDING
from runtime.server.session.utterance import ChosenVoice
from runtime.server.text.pronunciations import all_pronunciations
from runtime.server.wire import SAMPLE_BYTES, Reply, check_frames, split_pcm

DEFAULT_CONTEXT = "default"


class NativeSession(Dialect[NativeUtterance]):
    """Session of one client in the native protocol."""

    gives_notice = True

    def __init__(self, *, session_id: str, server: str, **common_arguments: Any) -> None:
        super().__init__(**common_arguments)
        # Settings of each context by context id. The entry under None has the default settings of all other contexts.
        self._voices: dict[str | None, ChosenVoice[schema.SessionConfig]] = {}
        cards, limits = common_arguments["cards"], common_arguments["limits"]
        self.send_queue.add_message(messages.session_created(session_id, server, cards, limits))

    # --- Method for timers.

    def _give_notice(self, remaining_s: float) -> None:
        self.send_queue.add_message(
            messages.SessionExpiring(type="session.expiring", remaining_s=round(remaining_s, 3))
        )

    # --- Methods that process events of the engine.

    def _on_event(self, utterance: NativeUtterance, event: SpeechEvent) -> None:
        self._timers.restart_idle()
        match event:
            case Queued():
                self.send_queue.add_message(messages.queue(utterance.name, event))
            case Started():
                self._start(utterance, event)
            case AudioChunk():
                self._send_audio(utterance, event.pcm, utterance.turn_start + event.first_sample)
            case Finished(stop_reason=StopReason.CANCELLED):
                self._ended(utterance, self._cancelled(utterance))
            case Finished() if utterance.turns:
                utterance.turn_ends.append(event)
                self._begin_turn(utterance)
            case Finished():
                end = join_ends([*utterance.turn_ends, event]) if utterance.turn_ends else event
                self._ended(utterance, messages.audio_done(utterance, end))
            case Broken():
                self._fail(utterance, event.error)

    def _start(self, utterance: NativeUtterance, event: Started) -> None:
        if utterance.turn:
            pause, utterance.turn_start = utterance.samples, utterance.samples + utterance.turn_pause_samples
            utterance.samples = utterance.turn_start
            self._send_audio(utterance, bytes(utterance.turn_pause_samples * SAMPLE_BYTES), pause)
        else:
            self.send_queue.add_message(messages.audio_start(utterance, event))
        if utterance.configured_voice is not None:
            self.send_queue.add_message(messages.dialogue_turn(utterance, event))

    def _send_audio(self, utterance: NativeUtterance, pcm: bytes, first_sample: int) -> None:
        for piece in split_pcm(pcm):
            samples = len(piece) // SAMPLE_BYTES
            data = binary_frame.header(utterance, first_sample) + piece if utterance.labelled else piece
            self.send_queue.add_audio(data, number=utterance.number, samples=samples)
            utterance.messages += 1
            first_sample += samples

    def _fail(self, utterance: NativeUtterance, error: SpeechError) -> None:
        reply = messages.error(error, utterance.name, partial_audio=utterance.samples > 0)
        self._ended(utterance, reply)

    def _on_voice_ready(self, voice: ChosenVoice[schema.SessionConfig]) -> None:
        is_used = any(utterance.voice is voice for utterance in self.utterances.values())
        super()._on_voice_ready(voice)
        name = voice.config.context_id
        # The failed voice is removed, unless the client has chosen another voice in the meantime.
        if isinstance(voice.reference, SpeechError) and self._voices.get(name) is voice:
            del self._voices[name]
            if not is_used:
                self._refuse_name(name or DEFAULT_CONTEXT, voice.reference)

    # --- Methods that process messages from the client.

    def _size_limit(self, fields: dict[str, Any]) -> int:
        is_config = fields.get("type") == "session.config"
        return self._limits.max_config_bytes if is_config else self._limits.max_message_bytes

    def _read(self, fields: dict[str, Any]) -> schema.ClientMessage:
        return schema.parse(fields)

    def _handle(self, message: schema.ClientMessage) -> None:
        name = message.context_id or DEFAULT_CONTEXT
        match message:
            case schema.SessionConfig():
                self._configure(message)
            case schema.InputText():
                utterance = self._taking_text(name, "input.text")
                if utterance is not None and message.text:
                    try:
                        utterance.append_text(message.text, self._clock())
                    except BadRequest as error:
                        self._abort(utterance, error)
            case schema.InputDialogue():
                self._begin_dialogue(name, message)
            case schema.InputFlush():
                self._flush(name)
            case schema.InputDone():
                utterance = self._taking_text(name, "input.done")
                # Accept messages for this name again, because an earlier context with the name may have been refused.
                self._muted.forget(name)
                if utterance is not None:
                    utterance.finish()
            case schema.ContextCancel():
                self._cancel(name, message.played_ms)
            case schema.Playback():
                self._played(name, message.played_ms)
            case schema.Ping():
                self.send_queue.add_message(messages.Pong(type="pong", t=message.t))
            case schema.SessionClose():
                self._close_session()

    def _configure(self, config: schema.SessionConfig) -> None:
        name = config.context_id
        self._muted.forget(name or DEFAULT_CONTEXT)
        try:
            # `_voices` may have one entry more than there are contexts, because of the default settings.
            if name not in self._voices and name is not None and len(self._voices) > self._limits.max_contexts:
                raise TooManyContexts(limit=self._limits.max_contexts)
            check_frames(config.frame_limit, self._limits.max_frames)
            resolved = config.resolve_voice(self._resolver)
            pronunciations = all_pronunciations(config, self._library)
        except BadRequest as error:
            self._refuse_config(name, error)
            return
        # The encoded recording in the message is not stored with the settings.
        slim = config.model_copy(update={**NO_RECORDING, "pronunciations": pronunciations})
        self._voices[name] = self._chosen(slim, resolved, config.recording)

    def _flush(self, name: str) -> None:
        utterance = self._named(name)
        if utterance is not None and utterance.takes_text:
            utterance.flush()

    def _played(self, name: str, played_ms: float) -> None:
        if utterance := self._named(name):
            utterance.played_ms = played_ms
            if utterance.is_submitted:
                self._commands.append(Played(utterance.number, utterance.turn_played_ms))

    # --- Methods for dialogues.

    def _begin_dialogue(self, name: str, message: schema.InputDialogue) -> None:
        utterance = self._taking_text(name, "input.dialogue")
        if utterance is None:
            return
        if utterance.is_submitted or utterance.queued:
            self._send_error(OutOfOrder(what="input.dialogue", why="that context already has a text"))
            return
        try:
            turns = deque(self._ready_turns(utterance.voice.config, message))
        except BadRequest as error:
            self._abort(utterance, error)
            return
        utterance.configured_voice = utterance.voice
        utterance.turns = turns
        utterance.turn_pause_samples = round(message.turn_pause_ms * SAMPLE_RATE / 1000)
        self._submit_turn(utterance)

    def _ready_turns(self, config: schema.SessionConfig, message: schema.InputDialogue) -> Iterator[ReadyTurn]:
        """Check all turns of a dialogue and yield the validated turns.

        Raises:
            BadRequest: A voice or a text is invalid. The error names the field of the turn.
        """
        check_turns(message.inputs, self._limits)
        for index, turn in enumerate(message.inputs):
            with errors_of_turn(index, {turn.voice_field: turn.voice_field, "text": "text"}):
                growing = config.create_streamed_text(self._limits)
                text = growing.feed_text(turn.text) + growing.finish()
                check_turn_text(text)
                if turn.voice is None:
                    yield ReadyTurn(text)
                    continue
                turn_config = config.model_copy(update={"voice": turn.voice, "ref_text": None})
                turn_config._voice_field = turn.voice_field
                yield ReadyTurn(text, (turn_config, turn_config.resolve_voice(self._resolver)))

    def _begin_turn(self, utterance: NativeUtterance) -> None:
        utterance.turn += 1
        utterance.retries_until = self._clock() + self._limits.queue_s
        self.utterances[utterance.number] = utterance
        self._submit_turn(utterance)

    def _submit_turn(self, utterance: NativeUtterance) -> None:
        turn = utterance.turns.popleft()
        voice = self._chosen(*turn.voice) if turn.voice is not None else utterance.configured_voice
        assert voice is not None
        if isinstance(voice.reference, SpeechError):
            self._abort(utterance, voice.reference)
            return
        utterance.begin_turn(turn, voice)
        utterance.send_text()

    def on_refused(self, number: int, error: SpeechError) -> None:
        utterance = self.utterances.get(number)
        if utterance is not None and utterance.current_turn is not None and utterance.turn and isinstance(error, Busy):
            at = self._clock() + cast(float, error.facts.get("retry_after_s", self._limits.queue_s))
            if at <= utterance.retries_until:
                utterance.turns.appendleft(utterance.current_turn)
                utterance.busy_until = at
                return
        super().on_refused(number, error)

    def _deadlines(self) -> Iterator[float]:
        yield from super()._deadlines()
        yield from (each.busy_until for each in self.utterances.values() if each.busy_until is not None)

    def _check_deadlines(self, now: float) -> None:
        super()._check_deadlines(now)
        for utterance in tuple(self.utterances.values()):
            if utterance.busy_until is not None and now >= utterance.busy_until:
                utterance.busy_until = None
                self._submit_turn(utterance)

    def _cancel(self, name: str, played_ms: float | None = None) -> None:
        self._muted.forget(name)
        if utterance := self._named(name):
            utterance.played_ms = utterance.played_ms if played_ms is None else played_ms
            self._release(utterance)
            self._finish(utterance, self._cancelled(utterance))
        elif self._voices.pop(name, None):  # The context has settings, but no text yet.
            self.send_queue.add_message(messages.context_cancelled(name, played_ms), is_terminal=True)

    def _close_session(self) -> None:
        for utterance in tuple(self.utterances.values()):
            self._cancel(utterance.name)
        self.send_queue.add_message(messages.SessionDone(type="session.done", utterances=self._uttered))
        self._close(1000)

    # --- Methods that open and end contexts.

    def _taking_text(self, name: str, what: str) -> NativeUtterance | None:
        """Return the context `name` (opened if necessary), or None if it cannot accept text."""
        if name in self._muted:
            return None
        utterance = self._named(name)
        if utterance is None:
            try:
                return self._opened(name, what)
            except BadRequest as error:
                self._refuse_name(name, error)
        elif utterance.takes_text:
            return utterance
        else:
            self._send_error(OutOfOrder(what=what, why="that context is being spoken; cancel it or wait for its end"))
        return None

    def _opened(self, name: str, what: str) -> NativeUtterance:
        voice = self._voices.get(name) or self._voices.get(None)
        if voice is None:
            raise OutOfOrder(what=what, why="no session.config has been accepted yet")
        if len(self.utterances) + self.send_queue.final_message_count >= self._limits.max_contexts:
            raise TooManyContexts(limit=self._limits.max_contexts)
        text = voice.config.create_streamed_text(self._limits)
        utterance = NativeUtterance(self._commands, voice, text, name=name)
        if self.utterances and not all(each.labelled for each in (utterance, *self.utterances.values())):
            raise OutOfOrder(what=what, why='plain frames carry one context at a time; set frames to "labelled"')
        self._voices.pop(name, None)  # Settings with a context id apply to only one utterance.
        return self._number(utterance)

    def _cancelled(self, utterance: NativeUtterance) -> Reply:
        return messages.context_cancelled(utterance.name, utterance.played_ms, utterance.sent_samples)

    def _finish(self, utterance: NativeUtterance, reply: Reply) -> None:
        """Close the context with its final message."""
        self._timers.restart_idle()
        self.send_queue.add_message(reply, is_terminal=True)

    def _ended(self, utterance: NativeUtterance, reply: Reply) -> None:
        """Close a context, and ignore text that the client may still send for this context."""
        if utterance.takes_text:
            self._muted.remember(utterance.name)
        self._finish(utterance, reply)

    def _abort(self, utterance: NativeUtterance, error: SpeechError) -> None:
        """Cancel the speech of a context and send an error as the final message."""
        self._release(utterance)
        self._fail(utterance, error)

    # --- Methods that send error messages.

    def _send_error(self, error: SpeechError) -> None:
        self.send_queue.add_message(messages.error(error))

    def _refuse_name(self, name: str, error: SpeechError) -> None:
        """Send an error for a context, and ignore later messages unless the context is open."""
        if self._named(name) is not None:
            self._send_error(error)
        else:
            self._voices.pop(name, None)
            self._muted.remember(name)
            self.send_queue.add_message(messages.error(error, name), is_terminal=True)

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        name = schema.context_of(fields)
        is_misnamed = name is None and fields.get("context_id") is not None
        if fields.get("type") == "session.config" and not is_misnamed:
            self._refuse_config(name, error)
        elif fields.get("type") == "input.text" and not is_misnamed:
            self._refuse_text(name or DEFAULT_CONTEXT, error)
        else:
            self._send_error(error)

    def _refuse_config(self, name: str | None, error: SpeechError) -> None:
        self._voices.pop(name, None)
        self._refuse_name(name or DEFAULT_CONTEXT, error)

    def _refuse_text(self, name: str, error: SpeechError) -> None:
        """Refuse a piece of text and end its context, because its speech would have a gap."""
        utterance = self._named(name)
        if utterance is not None and utterance.takes_text:
            self._abort(utterance, error)
        elif name not in self._muted:
            self._refuse_name(name, error)
