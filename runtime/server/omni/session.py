"""Session of vLLM-Omni 0.30's ``/v1/audio/speech/stream``.

Messages, error texts and close codes are the same as in vLLM-Omni. Extensions are additional fields (``code`` of
errors, ``metrics`` of audio.done), not new messages. Unlike vLLM-Omni, this session reads messages during speech, so a
disconnect cancels the speech. While the audio of a sentence is sent, the engine generates the next sentence. Streamed
text (``streaming_mode`` token_level or sentence_commit) is one sentence to which text is appended during speech.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from runtime.errors import (
    BadRequest,
    Busy,
    Expired,
    InvalidConfig,
    InvalidMessage,
    OutOfOrder,
    SessionIdle,
    SpeechError,
    TextTooLong,
)
from runtime.request import AudioChunk, Broken, Finished, Layout, SpeechEvent, Split, Started
from runtime.server.omni import messages
from runtime.server.omni.schema import OmniConfig, read_config
from runtime.server.omni.sentence_queue import OpenEncoder, QueuedClose, Sentence, SentenceQueue, Turn, TurnEnd
from runtime.server.omni.sentences import SentenceSplitter
from runtime.server.session.dialect import Dialect
from runtime.server.session.speech_fields import NO_RECORDING
from runtime.server.session.utterance import ChosenVoice, PauseDetector
from runtime.server.text.pronunciations import all_pronunciations
from runtime.server.wire import check_text
from runtime.shared.text.inline_tags import last_style

_IDLE_S = 30.0  # Idle timeout in seconds, as in vLLM-Omni. The native API has a longer timeout.
_MAX_CONFIG_BYTES = 4 * 2**20
_MAX_QUEUED = 256  # Number of queued sentences above which no input is read.
_MAX_COMMIT_ID = 256
_REPEATED_CHARS = 80  # Maximum number of characters of streamed text that audio.start repeats.
_MAX_QUEUED_TEXTS = 16  # Maximum length of the queued text, as a multiple of `limits.max_text_chars`.


class OmniSession(Dialect[Sentence]):
    """Session of one client in vLLM-Omni's API."""

    def __init__(self, *, open_encoder: OpenEncoder, **common_arguments: Any) -> None:
        super().__init__(**common_arguments)
        self._open_encoder = open_encoder
        self._voice: ChosenVoice[OmniConfig] | None = None
        self._turn: Turn | None = None  # Utterance that is receiving text.
        self._text = SentenceSplitter(Split.NONE)
        self._live: Sentence | None = None  # Sentence that receives the streamed text of the utterance, or None.
        # Number of characters of the streamed text or of the incomplete sentence.
        self._unspoken_chars = 0
        self._uncommitted = ""  # Text that has not been committed with input.commit.
        cards = common_arguments["cards"]
        self._streaming = frozenset(mode for card in cards if Layout.STREAMING in card.layouts for mode in card.modes)
        self._is_overlong = False  # True if the text of the utterance is too long. More text is ignored.
        self._is_leaving = False
        self._turns = 0
        self._queue = SentenceQueue()

    # --- Methods for timers and for the limit of queued input.

    @property
    def _silence_s(self) -> float | None:
        """Return the idle timeout in seconds, or None during speech.

        Streamed text has an idle timeout even during speech, because an incomplete text holds a slot.
        """
        if self._voice is None:
            return self._limits.config_s
        is_spoken_to = bool(self._queue) and (self._live is None or self._queue.head is not self._live)
        return None if is_spoken_to else min(_IDLE_S, self._limits.idle_s)

    @property
    def _pausing(self) -> PauseDetector | None:
        """Return the detector of pauses in the current text, or None.

        Pauses in streamed text are detected only after the sentence was submitted.
        """
        if self._turn is None or not (self._live is None or self._is_speaking(self._live)):
            return None
        return self._turn.text.pause

    def _deadlines(self) -> Iterator[float]:
        if (pause := self._pausing) is not None and pause.due is not None:
            yield pause.due

    def _check_deadlines(self, now: float) -> None:
        if (pause := self._pausing) is not None and pause.has_paused(now):
            self._flush()

    def _expire(self, error: Expired) -> None:
        if not isinstance(error, SessionIdle):
            super()._expire(error)
        elif self._voice is None:
            self._refuse("Timeout waiting for session.config", error)
        else:
            self._leave("Idle timeout: no message received", error)

    @property
    def is_congested(self) -> bool:
        """True if the session should not read input, because too much text or output is queued."""
        is_full = len(self._queue) > _MAX_QUEUED or (
            self._queue.waiting_chars > _MAX_QUEUED_TEXTS * self._limits.max_text_chars
        )
        return not self.closed and (is_full or super().is_congested)

    # --- Methods that process events of the engine.

    def _on_event(self, utterance: Sentence, event: SpeechEvent) -> None:
        match event:
            case Started():
                utterance.has_begun = True
                utterance.turn.seed = event.seed
            case AudioChunk():
                self._send_audio(utterance, event.pcm)
            case Finished():
                utterance.is_over = True
                utterance.finished = event
            case Broken():
                self._break(utterance, event.error)
        self.work()

    def _fail(self, utterance: Sentence, error: SpeechError) -> None:
        self._break(utterance, error)
        self.work()

    def _on_voice_ready(self, voice: ChosenVoice[OmniConfig]) -> None:
        """Submit or fail the sentences that waited for the voice."""
        self.work()

    # --- Methods that process messages from the client.

    def receive_text(self, text: str) -> None:
        if not self._is_leaving:
            super().receive_text(text)

    def _refuse_no_json(self, text: str, error: InvalidMessage) -> None:
        self._refuse("WebSocket messages must be JSON objects" if _is_json(text) else "Invalid JSON message", error)

    def _size_limit(self, fields: dict[str, Any]) -> int:
        limits = self._limits
        is_config = fields.get("type") == "session.config"
        return min(_MAX_CONFIG_BYTES, limits.max_config_bytes) if is_config else limits.max_message_bytes

    def _read(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    def _refuse_message(self, fields: dict[str, Any], error: SpeechError) -> None:
        what = "session.config" if fields.get("type") == "session.config" else "input.text"
        self._refuse(f"{what} message too large", error)
        self.work()

    def _handle(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "session.config":
            self._configure(message)
        elif self._voice is None:
            reason = OutOfOrder(what="The message", why="no session.config has been accepted yet")
            self._refuse(f"Expected session.config, got: {_quoted(kind)}", reason)
        elif kind == "input.text":
            self._append(self._voice, message.get("text"))
        elif kind == "input.commit":
            self._commit(self._voice, message.get("commit_id"))
        elif kind == "input.done":
            self._done(self._voice)
        elif kind == "session.close":
            self._is_leaving = True
            self._queue.append(QueuedClose())
        else:
            self._refuse_kind(kind)
        self.work()

    def _configure(self, fields: dict[str, Any]) -> None:
        if self._turn is not None:
            text = "session.config cannot be applied while an utterance is in progress; send input.done first"
            self._send_error_text(text, OutOfOrder(what="session.config", why="an utterance is in progress"))
            return
        try:
            config = read_config(fields, self._limits)
            resolved = config.resolve_voice(self._resolver)
            pronunciations = all_pronunciations(config, self._library)
        except BadRequest as error:
            self._refuse(f"Invalid session config: {error}", error)
            return
        # The recording is decoded only once, so it is not stored with the settings.
        changed: dict[str, Any] = {**NO_RECORDING, "pronunciations": pronunciations}
        if config.is_live and config.non_streaming_mode is None and resolved.mode in self._streaming:
            changed["non_streaming_mode"] = False  # As in vLLM-Omni, speech starts before the text is complete.
        self._voice = self._chosen(config.model_copy(update=changed), resolved, config.recording)
        self._text = SentenceSplitter(config.split_unit, self._limits if config.tags else None)

    def _append(self, voice: ChosenVoice[OmniConfig], text: object) -> None:
        if not isinstance(text, str):
            error = InvalidConfig(where="text", why="it must be a string", param="text")
            self._send_error_text("input.text requires a string value", error)
            return
        if not text or self._is_overlong:
            return
        turn = self._opened(voice)
        if voice.config.streaming_mode == "sentence_commit":
            self._uncommitted += text
        else:
            self._unspoken_chars += len(text)
            turn.fragments += voice.config.is_live
            turn.text.pause.restart(text, self._clock())
            self._speak_on(turn, turn.text.feed_text(text))
        try:
            check_text(len(self._uncommitted) + self._unspoken_chars, self._limits)
        except TextTooLong as error:
            self._break_off(turn, error)

    def _break_off(self, turn: Turn, error: TextTooLong) -> None:
        """End the speech of an utterance with an error, and ignore more text."""
        self._text.finish()
        self._is_overlong = True
        self._uncommitted = ""
        self._unspoken_chars = 0
        if self._live is None:
            sentence = self._enqueue(turn, "")
            sentence.is_over = True
            sentence.error = error
        elif not self._live.is_over:
            self._live.cancel()
            self._end(self._live)
            self._live.error = error

    def _commit(self, voice: ChosenVoice[OmniConfig], commit_id: object) -> None:
        """Append the text since the last commit to the running request."""
        if voice.config.streaming_mode != "sentence_commit":
            self._refuse_kind("input.commit")
        elif not (commit_id is None or (isinstance(commit_id, str) and len(commit_id) <= _MAX_COMMIT_ID)):
            why = f"it must be a string of at most {_MAX_COMMIT_ID} characters"
            error = InvalidConfig(where="commit_id", why=why, param="commit_id")
            self._send_error_text(f"Invalid input.commit: {error}", error)
        elif not self._uncommitted.strip():
            error = InvalidConfig(where="input.commit", why="no text was sent since the last one", param="text")
            self._send_error_text("input.commit requires buffered text", error)
        else:
            turn, text = self._opened(voice), self._uncommitted
            self._uncommitted = ""
            self._unspoken_chars += len(text)
            turn.fragments += 1
            turn.text.pause.restart(text, self._clock())
            self._grow(turn, turn.text.feed_text(text) + turn.text.flush())
            self._flush_live()
            self.send_queue.add_message(messages.input_committed(commit_id, turn.fragments - 1, len(text)))

    def _grow(self, turn: Turn, text: str) -> None:
        """Append text to the streamed sentence, which is created if necessary."""
        if text and self._live is None:
            self._live = self._enqueue(turn, text, is_live=True)
        elif text and self._live is not None and not self._live.is_over:
            self._live.queue_text(text)
            if self._live.is_submitted:
                self._live.send_text()
            else:
                self._live.words += text

    def _flush(self) -> None:
        """Speak all text that has arrived."""
        if self._turn is not None:
            self._speak_on(self._turn, self._turn.text.flush())
            self._enqueue_parts(self._turn, self._text.flush())
            self.work()
            self._flush_live()

    def _flush_live(self) -> None:
        if self._live is not None and self._is_speaking(self._live):
            self._live.send_text(is_flushed=True)

    def _done(self, voice: ChosenVoice[OmniConfig]) -> None:
        turn = self._opened(voice)
        turn.text.pause.settle()
        if self._uncommitted.strip():
            self._commit(voice, None)
        if not self._is_overlong:
            self._speak_on(turn, turn.text.finish())
        if self._live is not None:
            self._live.is_complete = True
            if self._is_speaking(self._live):
                self._live.send_text()
        self._live = None
        self._enqueue_parts(turn, self._text.finish())
        self._unspoken_chars = 0
        self._uncommitted = ""
        self._queue.append(TurnEnd(turn))
        self._turn = None
        self._is_overlong = False

    def _speak_on(self, turn: Turn, text: str) -> None:
        """Append filtered text to the streamed sentence, or split the text into sentences."""
        if turn.voice.config.is_live:
            self._grow(turn, text)
        else:
            self._enqueue_parts(turn, self._text.feed_text(text))

    def _opened(self, voice: ChosenVoice[OmniConfig]) -> Turn:
        if self._turn is None:
            config = voice.config
            self._turn = Turn(self._turns, voice, config.create_streamed_text(self._limits))
            self._turns += 1
        return self._turn

    def _enqueue_parts(self, turn: Turn, parts: list[str]) -> None:
        for part in parts:
            self._enqueue(turn, part)
            self._unspoken_chars = self._text.waiting_chars

    def _enqueue(self, turn: Turn, text: str, *, is_live: bool = False) -> Sentence:
        # The text in audio.start is shortened in the same way as in vLLM-Omni.
        shown = text[:_REPEATED_CHARS] + ("..." if len(text) > _REPEATED_CHARS else "") if is_live else text
        sentence = Sentence(
            self._commands, turn.voice, turn.text, turn=turn, index=turn.sentences, words=text, shown=shown
        )
        sentence.is_complete = not is_live
        sentence.queue_text(turn.style + text)
        if turn.voice.config.tags and not is_live:
            turn.style = last_style(text, self._limits) or turn.style
        turn.sentences += 1
        self._queue.append(sentence)
        return sentence

    # --- Methods that submit sentences and send their audio.

    def _step(self) -> bool:
        """Announce, submit and finish the first sentence as far as currently possible."""
        match self._queue.head:
            case Sentence() as sentence:
                self._announce(sentence)
                self._submit(sentence)
                if not sentence.is_over:
                    self._submit_ahead(sentence)
                    return False
                self._conclude(sentence)
            case TurnEnd(turn):
                self.send_queue.add_message(messages.session_done(turn))
            case QueuedClose():
                self._close(1000)
                return False
            case None:
                return False
        self._queue.popleft()
        self._timers.restart_idle()
        return True

    def _submit_ahead(self, head: Sentence) -> None:
        """Submit the next sentence while the first one is spoken."""
        ahead = self._queue.after_head()
        if head.has_begun and ahead is not None and ahead.may_go_ahead and ahead.is_complete:
            self._submit(ahead)

    def _announce(self, sentence: Sentence) -> None:
        """Send audio.start and the available audio of a sentence, unless already sent."""
        if sentence.is_announced:
            return
        sentence.is_announced = True
        self.send_queue.add_message(messages.audio_start(sentence))
        if sentence.is_streamed:
            unsent, sentence.unsent = sentence.unsent, []
            for pcm in unsent:
                self._send(sentence, pcm)

    def _submit(self, sentence: Sentence) -> None:
        """Submit a waiting sentence if its voice is ready."""
        voice = sentence.voice
        if sentence.is_over or sentence.is_submitted:
            return
        if isinstance(voice.reference, SpeechError):
            self._end(sentence)
            sentence.error = voice.reference
        elif voice.is_ready and (sentence.is_complete or sentence.has_words):
            self._number(sentence)
            sentence.seed = sentence.turn.seed
            if not sentence.is_streamed:
                sentence.encoder = self._open_encoder(voice.config.response_format, speed=voice.config.speed)
            sentence.send_text()

    def _is_speaking(self, sentence: Sentence) -> bool:
        return sentence.is_submitted and not sentence.is_over

    def _send_audio(self, sentence: Sentence, pcm: bytes) -> None:
        if sentence.encoder is not None:
            sentence.unsent.append(sentence.encoder.encode_pcm(pcm))
        elif sentence.is_announced:
            self._send(sentence, pcm)
        else:
            sentence.unsent.append(pcm)

    def _send(self, sentence: Sentence, pcm: bytes) -> None:
        self._send_pcm(sentence, pcm)
        sentence.sent_bytes += len(pcm)

    def _end(self, sentence: Sentence) -> None:
        sentence.is_over = True
        self.utterances.pop(sentence.number, None)

    def _break(self, sentence: Sentence, error: SpeechError) -> None:
        if sentence is not self._queue.head and isinstance(error, Busy) and not sentence.samples:
            # The engine has no free slot while the previous sentence is spoken. This sentence is submitted again when
            # it becomes the first in the queue.
            sentence.is_submitted = False
            sentence.is_end_sent = False
            sentence.may_go_ahead = False
            sentence.queue_text(sentence.words)
        else:
            sentence.is_over = True
            sentence.error = error

    def _conclude(self, sentence: Sentence) -> None:
        """Send the final messages of a sentence: an error if the sentence failed, then audio.done."""
        if sentence.error is None and sentence.encoder is not None:
            data = b"".join(sentence.unsent) + sentence.encoder.finish()
            self.send_queue.add_audio(data, number=sentence.number, samples=sentence.samples)
            sentence.sent_bytes = len(data)
        elif sentence.error is not None:
            self.send_queue.add_message(messages.failure(sentence, sentence.error))
        self.send_queue.add_message(messages.audio_done(sentence))

    # --- Methods that send error messages and close the session.

    def _refuse_kind(self, kind: object) -> None:
        self._refuse(f"Unknown message type: {_quoted(kind)}", InvalidConfig(where="type", why="unknown"))

    def _refuse(self, text: str, error: SpeechError) -> None:
        """Send an error, and close the session if no session.config was accepted before."""
        if self._voice is None:
            self._leave(text, error)
        else:
            self._send_error_text(text, error)

    def _leave(self, text: str, error: SpeechError) -> None:
        self._send_error_text(text, error)
        self._close(1000, error.code)  # The close code is always 1000, as in vLLM-Omni.

    def _send_error_text(self, text: str, error: SpeechError) -> None:
        self.send_queue.add_message(messages.error(text, error))

    def _send_error(self, error: SpeechError) -> None:
        self._send_error_text(str(error), error)

    def _abort_all(self, error: SpeechError) -> None:
        for sentence in tuple(self.utterances.values()):
            sentence.cancel()
            self._end(sentence)
        head = self._queue.head
        if isinstance(head, Sentence) and head.is_announced:
            head.error = error
            self._conclude(head)
        self._queue.clear()


def _is_json(text: str) -> bool:
    """True if the text is valid JSON but not an object."""
    try:
        return not isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _quoted(kind: object) -> str:
    """Return at most 64 characters of a message type, as in the errors of vLLM-Omni."""
    return str(kind)[:64]
