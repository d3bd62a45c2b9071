"""Speaks vLLM-Omni 0.30's ``/v1/audio/speech/stream`` as a state machine without input or output of its own.

Its messages, its error texts and what ends a session are that server's; what is new (``code`` of errors, ``metrics`` of
audio.done) are additional fields, and there are no new messages. Unlike there the client is heard while it is spoken
to: a hang-up cancels. Sentences are spoken one after the other; the engine makes the next while one is being sent.
A live text (``streaming_mode`` token_level, sentence_commit) is one sentence that grows while it is spoken.
Thread: event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from runtime import errors
from runtime.errors import SpeechError
from runtime.request import (
    AudioChunk,
    Broken,
    Finished,
    Layout,
    Mode,
    ModelCard,
    Queued,
    Reference,
    SpeechEvent,
    Split,
    Started,
)
from runtime.server.commands import Append, Cancel, Command, Decode, FinishText, Flush, Outgoing, Recall, Submit
from runtime.server.lull import Lull
from runtime.server.native import schema
from runtime.server.native.replies import BYTES_PER_SAMPLE, PIECE_BYTES
from runtime.server.omni import replies
from runtime.server.omni.schema import read_config
from runtime.server.omni.sentence_queue import (
    Goodbye,
    OmniQueue,
    OmniVoice,
    OpenEncoder,
    Sentence,
    SentencePhase,
    Turn,
    TurnEnd,
)
from runtime.server.omni.sentences import Sentences
from runtime.server.plain_send_queue import PlainSendQueue
from runtime.server.text_filter import text_filter
from runtime.server.voices.voice_library import VoiceLibrary
from runtime.server.voices.voice_resolver import VoiceResolver
from runtime.settings import Limits
from runtime.shared.speech_rate import is_speakable

_IDLE_S = 30.0  # that server's; ours is longer
_MAX_CONFIG_BYTES = 4 * 2**20
_MAX_QUEUED = 256  # sentences and ends that wait; the rest waits in the client's socket
_MAX_COMMIT_ID = 256
_SHOWN = 80  # characters of a live text that audio.start repeats
_MAX_QUEUED_TEXTS = 16  # the same in full texts


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
        self._resolver = VoiceResolver(cards, library)
        self._open_encoder = open_encoder
        self._clock = clock
        self._began = self._last_event = clock()
        self._voice: OmniVoice | None = None
        self._reading: dict[int, OmniVoice] = {}  # upload -> the voice that waits for it
        self._turn: Turn | None = None  # the utterance whose text is coming
        self._text = Sentences(Split.NONE)
        self._live: Sentence | None = None  # the utterance's, where its text is live
        self._unspoken_chars = 0  # of the text that was sent: a live one's, or those of the part that is not complete
        self._uncommitted = ""  # of it: text that no input.commit has followed yet
        self._streaming = frozenset(mode for card in cards if Layout.STREAMING in card.layouts for mode in card.modes)
        self._lull: Lull | None = None  # in the text that is coming
        self._is_overlong = False  # the rest of the utterance's text is ignored
        self._is_leaving = False
        self._turns = self._numbers = self._uploads = 0
        self._queue = OmniQueue()
        self._commands: list[Command] = []
        self._send_queue = PlainSendQueue()

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
        """When `tick` is due: the end of the session, or before it the time that a client may be silent.

        Silence does not count while the client is being spoken to.
        """
        if self.closed:
            return None
        end = self._began + self._limits.session_s
        if (lull := self._lull_that_counts) is not None and lull.due is not None:
            end = min(end, lull.due)
        if self._voice is None:
            return min(end, self._began + self._limits.config_s)
        # A client that leaves a live text open holds a slot, even while an earlier one is being spoken.
        is_spoken_to = bool(self._queue) and (self._live is None or self._queue.head is not self._live)
        return end if is_spoken_to else min(end, self._last_event + min(_IDLE_S, self._limits.idle_s))

    @property
    def _lull_that_counts(self) -> Lull | None:
        """The pause in the text that is coming; one in a live text counts while the engine has it."""
        return self._lull if self._live is None or self._live.phase is SentencePhase.SPEAKING else None

    @property
    def is_congested(self) -> bool:
        """There is enough to speak, or the client does not take its replies; read no more of it for now."""
        is_full = len(self._queue) > _MAX_QUEUED or (
            self._queue.waiting_chars > _MAX_QUEUED_TEXTS * self._limits.max_text_chars
        )
        return not self.closed and (is_full or self._send_queue.is_congested)

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
        elif kind == "input.commit":
            self._commit(self._voice, fields.get("commit_id"))
        elif kind == "input.done":
            self._done(self._voice)
        elif kind == "session.close":
            self._is_leaving = True
            self._queue.push(Goodbye())
        else:
            self._refuse(f"Unknown message type: {_quoted(kind)}", errors.InvalidConfig(where="type", why="unknown"))
        self._advance()

    def receive_bytes(self) -> None:
        """Take a binary message; the client has none to send."""
        if not self.closed:
            self.shut(errors.InvalidMessage(why="binary messages are not taken"), 1003)

    def on_speech(self, number: int, event: SpeechEvent) -> None:
        """Take an event of the engine; one of a request that was given up meanwhile is dropped."""
        one = self._queue.by_number(number)
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
                one.phase = SentencePhase.ENDED
                one.finished = event
            case Broken():
                self._fail(one, event.error)
        self._advance()

    def on_refused(self, number: int, error: SpeechError) -> None:
        """Take the engine's refusal of a Submit."""
        if one := self._queue.by_number(number):
            self._fail(one, error)
            self._advance()

    def on_reference(self, number: int, result: Reference | SpeechError) -> None:
        """Take what a Decode or a Recall brought; a failure is told with each sentence that needed it."""
        if (voice := self._reading.pop(number, None)) is not None:
            voice.reference = result
            self._advance()

    def tick(self) -> None:
        """Speak a sentence that nothing has followed; close the session if its deadline has passed."""
        if self.deadline is None or self._clock() < self.deadline:
            return
        if (lull := self._lull_that_counts) is not None and lull.has_come(self._clock()):
            self._flush()
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
        head = self._queue.head
        if isinstance(head, Sentence) and head.is_announced:
            head.error = error
            self._conclude(head)
        self._queue.clear()
        self._say_error(str(error), error)
        self._close(code, error.code)

    def gone(self) -> None:
        """Give everything back: the client is not there any more."""
        self._give_back()
        self._queue.clear()
        self._send_queue.clear()
        self.closed = True

    # --- the client's messages

    def _configure(self, fields: dict[str, Any]) -> None:
        if self._turn is not None:
            text = "session.config cannot be applied while an utterance is in progress; send input.done first"
            self._say_error(text, errors.OutOfOrder(what="session.config", why="an utterance is in progress"))
            return
        try:
            config = read_config(fields, self._limits)
            resolved = self._resolver.resolve(
                mode=config.task_type,
                model=config.model,
                voice=config.voice,
                has_reference=config.ref_audio is not None,
            )
        except errors.BadRequest as error:
            self._refuse(f"Invalid session config: {error}", error)
            return
        ref_audio = config.ref_audio if resolved.mode is Mode.BASE else None
        # The audio is decoded once, the message that brought it need not be kept.
        slim = config.model_copy(update={"ref_audio": None})
        if config.is_live and config.non_streaming_mode is None and resolved.mode in self._streaming:
            slim = slim.model_copy(update={"non_streaming_mode": False})  # that server's: spoken with its first words
        self._voice = OmniVoice(slim, resolved, needs_reference=ref_audio is not None or resolved.stored is not None)
        self._text = Sentences(config.cut)
        self._lull = config.lull(self._limits)
        if self._voice.needs_reference:
            self._uploads += 1
            self._reading[self._uploads] = self._voice
            if ref_audio is not None:
                self._commands.append(Decode(self._uploads, ref_audio))
            elif resolved.stored is not None:
                self._commands.append(Recall(self._uploads, resolved.stored))

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
        if self._lull is not None:
            self._lull.heard(text, self._clock())
        if voice.config.streaming_mode == "sentence_commit":
            self._uncommitted += text
        else:
            self._unspoken_chars += len(text)
            turn.fragments += voice.config.is_live
            self._speak_on(turn, turn.filter.add(text))
        limit = self._limits.max_text_chars
        if (count := len(self._uncommitted) + self._unspoken_chars) > limit:
            self._text.finish()
            self._is_overlong = True
            self._uncommitted = ""
            self._unspoken_chars = 0
            error = errors.TextTooLong(count=count, unit="characters", limit=limit, param="text")
            if self._live is None:
                self._enqueue(turn, "", error)
            elif self._live.phase is not SentencePhase.ENDED:
                if self._live.phase is SentencePhase.SPEAKING:
                    self._commands.append(Cancel(self._live.number))
                self._live.phase = SentencePhase.ENDED
                self._live.error = error

    def _commit(self, voice: OmniVoice, commit_id: object) -> None:
        """Speak the text that was sent since the last commit, as more of the same request."""
        if voice.config.streaming_mode != "sentence_commit":
            self._refuse("Unknown message type: input.commit", errors.InvalidConfig(where="type", why="unknown"))
        elif not (commit_id is None or (isinstance(commit_id, str) and len(commit_id) <= _MAX_COMMIT_ID)):
            why = f"it must be a string of at most {_MAX_COMMIT_ID} characters"
            error = errors.InvalidConfig(where="commit_id", why=why, param="commit_id")
            self._say_error(f"Invalid input.commit: {error}", error)
        elif not self._uncommitted.strip():
            error = errors.InvalidConfig(where="input.commit", why="no text was sent since the last one", param="text")
            self._say_error("input.commit requires buffered text", error)
        else:
            turn, text = self._opened(voice), self._uncommitted
            self._uncommitted = ""
            self._unspoken_chars = self._unspoken_chars + len(text)
            turn.fragments += 1
            self._grow(turn, turn.filter.add(text) + turn.filter.flush())
            if self._live is not None and self._live.phase is SentencePhase.SPEAKING and self._live.number:
                self._commands.append(Flush(self._live.number))
            self._send_queue.say(replies.input_committed(commit_id, turn.fragments - 1, len(text)))

    def _grow(self, turn: Turn, text: str) -> None:
        """Add to the utterance's live text; its first words begin it."""
        one = self._live
        if not text:
            return
        if one is None:
            one = self._live = Sentence(turn, turn.sentences, text, shown=_first_of(text), is_open=True)
            turn.sentences += 1
            self._queue.push(one)
        elif one.phase is SentencePhase.WAITING:
            one.text += text
        elif one.phase is SentencePhase.SPEAKING:
            self._commands.append(Append(one.number, text))

    def _flush(self) -> None:
        """Speak what there is of the text."""
        if self._turn is None:
            return
        self._speak_on(self._turn, self._turn.filter.flush())
        for part in self._text.flush():
            self._enqueue(self._turn, part)
            self._unspoken_chars = self._text.waiting_chars
        self._advance()
        if self._live is not None and self._live.phase is SentencePhase.SPEAKING:
            self._commands.append(Flush(self._live.number))

    def _done(self, voice: OmniVoice) -> None:
        if self._lull is not None:
            self._lull.over()
        turn = self._opened(voice)
        if self._uncommitted.strip():
            self._commit(voice, None)
        if not self._is_overlong:
            self._speak_on(turn, turn.filter.finish())
        if self._live is not None:
            self._live.is_open = False
            if self._live.phase is SentencePhase.SPEAKING:
                self._commands.append(FinishText(self._live.number))
        self._live = None
        self._unspoken_chars = 0
        self._uncommitted = ""
        for part in self._text.finish():
            self._enqueue(turn, part)
        self._queue.push(TurnEnd(turn))
        self._turn = None
        self._is_overlong = False

    def _speak_on(self, turn: Turn, text: str) -> None:
        """Speak more of the utterance's text."""
        if turn.voice.config.is_live:
            self._grow(turn, text)
        else:
            for part in self._text.add(text):
                self._enqueue(turn, part)
                self._unspoken_chars = self._text.waiting_chars

    def _opened(self, voice: OmniVoice) -> Turn:
        if self._turn is None:
            self._turn = Turn(self._turns, voice, text_filter(voice.config.filter_name))
            self._turns += 1
        return self._turn

    def _enqueue(self, turn: Turn, text: str, error: SpeechError | None = None) -> None:
        one = Sentence(turn, turn.sentences, text)
        turn.sentences += 1
        if error is not None:
            one.phase = SentencePhase.ENDED
            one.error = error
        self._queue.push(one)

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
            match self._queue.head:
                case Sentence() as one:
                    self._announce(one)
                    self._submit(one)
                    if one.phase is not SentencePhase.ENDED:
                        break
                    self._conclude(one)
                case TurnEnd(turn):
                    self._send_queue.say(replies.session_done(turn))
                case Goodbye():
                    self._close(1000)
                    return
                case None:
                    return
            self._queue.pop()
            self._last_event = self._clock()
        ahead = self._queue.after_head()
        head = self._queue.head
        if (
            ahead is not None
            and ahead.may_go_ahead
            and not ahead.is_open
            and isinstance(head, Sentence)
            and head.has_begun
        ):
            self._submit(ahead)

    def _announce(self, one: Sentence) -> None:
        """Open the sentence to the client, once, and send what the engine has made of it already."""
        if one.is_announced:
            return
        one.is_announced = True
        self._send_queue.say(replies.audio_start(one))
        if one.is_streamed:
            held, one.held = one.held, []
            for pcm in held:
                self._send(one, pcm)

    def _submit(self, one: Sentence) -> None:
        """Hand a waiting sentence to the engine as soon as its voice is there."""
        voice = one.turn.voice
        if one.phase is not SentencePhase.WAITING or not voice.is_ready or (one.is_open and not is_speakable(one.text)):
            return
        if isinstance(voice.reference, SpeechError):
            one.phase = SentencePhase.ENDED
            one.error = voice.reference
            return
        self._numbers += 1
        one.number = self._numbers
        one.phase = SentencePhase.SPEAKING
        if not one.is_streamed:
            one.encoder = self._open_encoder(voice.config.response_format, voice.config.speed)
        request = voice.request(one.text, one.turn.seed)
        self._commands.append(Submit(one.number, replace(request, open_text=one.is_open)))

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
            self._send_queue.sound(piece, number=one.number, samples=len(piece) // BYTES_PER_SAMPLE)
            one.sent_bytes += len(piece)

    def _fail(self, one: Sentence, error: SpeechError) -> None:
        is_ahead = one is not self._queue.head
        if is_ahead and isinstance(error, errors.Busy) and not one.samples:
            # It was only to save time. It is asked for again when its turn comes.
            one.phase = SentencePhase.WAITING
            one.may_go_ahead = False
        else:
            one.phase = SentencePhase.ENDED
            one.error = error

    def _conclude(self, one: Sentence) -> None:
        """Say how the sentence ended: always an audio.done, after the error if there is one."""
        if one.error is None and one.encoder is not None:
            data = b"".join(one.held) + one.encoder.finish()
            self._send_queue.sound(data, number=one.number, samples=one.samples)
            one.sent_bytes = len(data)
        elif one.error is not None:
            self._send_queue.say(replies.failure(one, one.error))
        self._send_queue.say(replies.audio_done(one))

    def _give_back(self) -> None:
        for one in self._queue.speaking():
            one.phase = SentencePhase.ENDED
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
        self._send_queue.say(replies.error(text, error))

    def _close(self, code: int, reason: str = "") -> None:
        self._send_queue.close(code, reason)
        self.closed = True


def _is_other_json(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _first_of(text: str) -> str:
    """What that server shows of a live text."""
    return text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")


def _quoted(kind: object) -> str:
    """That server quotes the type it was sent; a long one is cut."""
    return str(kind)[:64]
