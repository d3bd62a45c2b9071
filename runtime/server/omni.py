"""vLLM-Omni 0.30's ``/v1/audio/speech/stream`` as a state machine without input or output of its own.

Its messages, its error texts and what ends a session are that server's; what is new (``code`` of errors, ``metrics`` of
audio.done) are additional fields, and there are no new messages. Unlike there the client is heard while it is spoken
to: a hang-up cancels. Sentences are spoken one after the other; the engine makes the next while one is being sent.
Thread: event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from runtime import errors
from runtime.errors import SpeechError
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    Mode,
    ModelCard,
    Queued,
    Reference,
    SpeechEvent,
    Split,
    Started,
)
from runtime.server import omni_replies, schema
from runtime.server.casting import Casting
from runtime.server.effects import Cancel, Command, Decode, Outgoing, Recall, Submit
from runtime.server.omni_line import (
    Goodbye,
    Line,
    OmniVoice,
    OpenEncoder,
    Phase,
    Sentence,
    Turn,
    TurnEnd,
)
from runtime.server.omni_schema import read_config
from runtime.server.replies import BYTES_PER_SAMPLE, PIECE_BYTES
from runtime.server.sentences import Sentences
from runtime.server.spool import Spool
from runtime.server.voice_library import VoiceLibrary
from runtime.settings import Limits

_IDLE_S = 30.0  # that server's; ours is longer
_MAX_CONFIG_BYTES = 4 * 2**20
_MAX_LINE = 256  # sentences and ends that wait; the rest waits in the client's socket
_MAX_LINE_TEXTS = 16  # the same in full texts


class OmniSession:
    """One client on one socket."""

    def __init__(
        self,
        *,
        limits: Limits,
        cards: Sequence[ModelCard],
        library: VoiceLibrary,
        open_encoder: OpenEncoder,
        clock: Callable[[], float],
    ) -> None:
        self.closed = False
        self._limits = limits
        self._casting = Casting(cards, library)
        self._open_encoder = open_encoder
        self._clock = clock
        self._began = self._last_event = clock()
        self._voice: OmniVoice | None = None
        self._reading: dict[int, OmniVoice] = {}  # upload -> the voice that waits for it
        self._turn: Turn | None = None  # the utterance whose text is coming
        self._text = Sentences(Split.NONE)
        self._is_overlong = False  # the rest of the utterance's text is ignored
        self._is_leaving = False
        self._turns = self._numbers = self._uploads = 0
        self._line = Line()
        self._commands: list[Command] = []
        self._spool = Spool()

    # --- what comes out

    def commands(self) -> list[Command]:
        """Return what the process must do now; each command once."""
        commands, self._commands = self._commands, []
        return commands

    def take(self) -> Outgoing | None:
        """Return what goes to the client next, or None. After a Close there is nothing more."""
        return self._spool.take()

    @property
    def deadline(self) -> float | None:
        """When `tick` is due: the end of the client's patience unless it is being spoken to, and of the session."""
        if self.closed:
            return None
        end = self._began + self._limits.session_s
        if self._voice is None:
            return min(end, self._began + self._limits.config_s)
        return end if self._line else min(end, self._last_event + min(_IDLE_S, self._limits.idle_s))

    @property
    def is_congested(self) -> bool:
        """There is enough to speak, or the client does not take its replies; read no more of it for now."""
        is_full = len(self._line) > _MAX_LINE or (
            self._line.waiting_chars > _MAX_LINE_TEXTS * self._limits.max_text_chars
        )
        return not self.closed and (is_full or self._spool.is_congested)

    # --- what goes in

    def receive_text(self, text: str) -> None:
        """Take a text message."""
        if self.closed or self._is_leaving:
            return
        self._last_event = self._clock()
        try:
            fields = schema.decode(text)
        except errors.InvalidMessage as error:
            is_other = _is_other_json(text)
            self._refuse("WebSocket messages must be JSON objects" if is_other else "Invalid JSON message", error)
            return
        kind = fields.get("type")
        if (oversize := self._oversize(kind, text)) is not None:
            what = "session.config" if kind == "session.config" else "input.text"
            self._refuse(f"{what} message too large", oversize)
        elif kind == "session.config":
            self._configure(fields)
        elif self._voice is None:
            reason = errors.OutOfOrder(what="The message", why="no session.config has been accepted yet")
            self._refuse(f"Expected session.config, got: {_quoted(kind)}", reason)
        elif kind == "input.text":
            self._append(self._voice, fields.get("text", ""))
        elif kind == "input.done":
            self._done(self._voice)
        elif kind == "session.close":
            self._is_leaving = True
            self._line.push(Goodbye())
        else:
            self._refuse(f"Unknown message type: {_quoted(kind)}", errors.InvalidConfig(where="type", why="unknown"))
        self._advance()

    def receive_bytes(self) -> None:
        """Take a binary message; the client has none to send."""
        if not self.closed:
            self.shut(errors.InvalidMessage(why="binary messages are not taken"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Take an event of the engine; one of a request that was given up meanwhile is dropped."""
        one = self._line.by_number(number)
        if one is None:
            return
        match event:
            case Queued():
                pass  # there is no message for it
            case Started():
                one.has_begun = True
                one.turn.seed = event.seed
            case AudioChunk():
                self._hear(one, event)
            case Finished():
                one.phase, one.finished = Phase.ENDED, event
            case Broken():
                self._fail(one, event.error)
        self._advance()

    def on_refused(self, number: int, error: SpeechError) -> None:
        """Take the engine's refusal of a Submit."""
        if one := self._line.by_number(number):
            self._fail(one, error)
            self._advance()

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Take what a Decode or a Recall brought; a failure is told with each sentence that needed it."""
        if (voice := self._reading.pop(number, None)) is not None:
            voice.reference = result
            self._advance()

    def tick(self) -> None:
        """Close the session if its deadline has passed."""
        if self.deadline is None or self._clock() < self.deadline:
            return
        if self._clock() >= self._began + self._limits.session_s:
            self.shut(errors.SessionTooLong(limit=self._limits.session_s), 1008)
        elif self._voice is None:
            self._refuse("Timeout waiting for session.config", errors.SessionIdle(limit=self._limits.config_s))
        else:
            limit = min(_IDLE_S, self._limits.idle_s)
            self._leave("Idle timeout: no message received", errors.SessionIdle(limit=limit))

    def shut(self, error: SpeechError, code: int) -> None:
        """End what is being said and the session, because the server must."""
        if self.closed:
            return
        self._give_back()
        head = self._line.head
        if isinstance(head, Sentence) and head.is_announced:
            head.error = error
            self._conclude(head)
        self._line.clear()
        self._say_error(str(error), error)
        self._close(code, error.code)

    def gone(self) -> None:
        """Give everything back: the client is not there any more."""
        self._give_back()
        self._line.clear()
        self._spool.clear()
        self.closed = True

    # --- the client's messages

    def _configure(self, fields: dict[str, Any]) -> None:
        if self._turn is not None:
            text = "session.config cannot be applied while an utterance is in progress; send input.done first"
            self._say_error(text, errors.OutOfOrder(what="session.config", why="an utterance is in progress"))
            return
        try:
            config = read_config(fields, self._limits)
            role = self._casting.cast(
                mode=config.task_type,
                model=config.model,
                voice=config.voice,
                has_reference=config.ref_audio is not None,
            )
        except errors.BadRequest as error:
            self._refuse(f"Invalid session config: {error}", error)
            return
        ref_audio = config.ref_audio if role.mode is Mode.BASE else None
        # The audio is decoded once, the message that brought it need not be kept.
        slim = config.model_copy(update={"ref_audio": None})
        self._voice = OmniVoice(slim, role, needs_reference=ref_audio is not None or role.stored is not None)
        self._text = Sentences(Split(config.split_granularity))
        if self._voice.needs_reference:
            self._uploads += 1
            self._reading[self._uploads] = self._voice
            if ref_audio is not None:
                self._commands.append(Decode(self._uploads, ref_audio))
            elif role.stored is not None:
                self._commands.append(Recall(self._uploads, role.stored))

    def _append(self, voice: OmniVoice, text: object) -> None:
        if not isinstance(text, str):
            self._say_error(
                "input.text requires a string value",
                errors.InvalidConfig(where="text", why="it must be a string", param="text"),
            )
            return
        if not text or self._is_overlong:
            return
        turn = self._opened(voice)
        for part in self._text.add(text):
            self._queue(turn, part)
        limit = self._limits.max_text_chars
        if (count := self._text.waiting_chars) > limit:
            self._text.finish()
            self._is_overlong = True
            error = errors.TextTooLong(count=count, unit="characters", limit=limit, param="text")
            self._queue(turn, "", error)

    def _done(self, voice: OmniVoice) -> None:
        turn = self._opened(voice)
        for part in self._text.finish():
            self._queue(turn, part)
        self._line.push(TurnEnd(turn))
        self._turn, self._is_overlong = None, False

    def _opened(self, voice: OmniVoice) -> Turn:
        if self._turn is None:
            self._turn = Turn(self._turns, voice)
            self._turns += 1
        return self._turn

    def _queue(self, turn: Turn, text: str, error: SpeechError | None = None) -> None:
        one = Sentence(turn, turn.sentences, text)
        turn.sentences += 1
        if error is not None:
            one.phase, one.error = Phase.ENDED, error
        self._line.push(one)

    def _oversize(self, kind: object, text: str) -> errors.MessageTooLarge | None:
        limits = self._limits
        is_config = kind == "session.config"
        limit = min(_MAX_CONFIG_BYTES, limits.max_config_bytes) if is_config else limits.max_message_bytes
        try:
            schema.check_size(text, limit)
        except errors.MessageTooLarge as oversize:
            return oversize
        return None

    # --- sentences

    def _advance(self) -> None:
        """Say and ask for whatever has become possible."""
        while not self.closed:
            match self._line.head:
                case Sentence() as one:
                    self._announce(one)
                    self._submit(one)
                    if one.phase is not Phase.ENDED:
                        break
                    self._conclude(one)
                case TurnEnd(turn):
                    self._spool.say(omni_replies.session_done(turn))
                case Goodbye():
                    self._close(1000)
                    return
                case None:
                    return
            self._line.pop()
            self._last_event = self._clock()
        ahead = self._line.after_head()
        head = self._line.head
        if ahead is not None and ahead.may_go_ahead and isinstance(head, Sentence) and head.has_begun:
            self._submit(ahead)

    def _announce(self, one: Sentence) -> None:
        """Open the sentence to the client, once, and send what the engine has made of it already."""
        if one.is_announced:
            return
        one.is_announced = True
        self._spool.say(omni_replies.audio_start(one))
        if one.is_streamed:
            held, one.held = one.held, []
            for pcm in held:
                self._send(one, pcm)

    def _submit(self, one: Sentence) -> None:
        """Hand a waiting sentence to the engine as soon as its voice is there."""
        voice = one.turn.voice
        if one.phase is not Phase.WAITING or not voice.is_ready:
            return
        if isinstance(voice.reference, SpeechError):
            one.phase, one.error = Phase.ENDED, voice.reference
            return
        self._numbers += 1
        one.number, one.phase = self._numbers, Phase.SPEAKING
        if not one.is_streamed:
            one.encoder = self._open_encoder(voice.config.response_format, voice.config.speed)
        self._commands.append(Submit(one.number, voice.request(one.text, one.turn.seed)))

    def _hear(self, one: Sentence, chunk: AudioChunk) -> None:
        one.samples += len(chunk.pcm) // BYTES_PER_SAMPLE
        if one.encoder is not None:
            one.held.append(one.encoder.add(chunk.pcm))
        elif one.is_announced:
            self._send(one, chunk.pcm)
        else:
            one.held.append(chunk.pcm)

    def _send(self, one: Sentence, pcm: bytes) -> None:
        for start in range(0, len(pcm), PIECE_BYTES):
            piece = pcm[start : start + PIECE_BYTES]
            self._spool.sound(piece, number=one.number, samples=len(piece) // BYTES_PER_SAMPLE)
            one.sent_bytes += len(piece)

    def _fail(self, one: Sentence, error: SpeechError) -> None:
        is_ahead = one is not self._line.head
        if is_ahead and isinstance(error, errors.Busy) and not one.samples:
            # It was only to save time. It is asked for again when its turn comes.
            one.phase, one.may_go_ahead = Phase.WAITING, False
        else:
            one.phase, one.error = Phase.ENDED, error

    def _conclude(self, one: Sentence) -> None:
        """Say how the sentence ended: always an audio.done, after the error if there is one."""
        if one.error is None and one.encoder is not None:
            data = b"".join(one.held) + one.encoder.finish()
            self._spool.sound(data, number=one.number, samples=one.samples)
            one.sent_bytes = len(data)
        elif one.error is not None:
            self._spool.say(omni_replies.failure(one, one.error))
        self._spool.say(omni_replies.audio_done(one))

    def _give_back(self) -> None:
        for one in self._line.speaking():
            one.phase = Phase.ENDED
            self._commands.append(Cancel(one.number))

    # --- refusals and the end

    def _refuse(self, text: str, error: SpeechError) -> None:
        """Refuse a message; before the first accepted session.config that ends the session."""
        if self._voice is None:
            self._leave(text, error)
        else:
            self._say_error(text, error)

    def _leave(self, text: str, error: SpeechError) -> None:
        self._say_error(text, error)
        self._close(1000, error.code)  # that server closes in order, whatever the reason

    def _say_error(self, text: str, error: SpeechError) -> None:
        self._spool.say(omni_replies.error(text, error))

    def _close(self, code: int, reason: str = "") -> None:
        self._spool.close(code, reason)
        self.closed = True


def _is_other_json(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _quoted(kind: object) -> str:
    """That server quotes the type it was sent; a long one is cut."""
    return str(kind)[:64]
