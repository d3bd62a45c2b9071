"""Queue of messages to one WebSocket client."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable

from runtime.server.session.commands import AudioMessage, Close, EncodedMessage, Outgoing, TextMessage
from runtime.server.wire import Reply

_MAX_UNSENT_MESSAGES = 256  # Number of unsent messages without audio above which no input is read.


class SendQueue:
    """Queue of messages to one client.

    The unsent audio of one utterance can be removed, and also the unsent messages of one context.
    """

    def __init__(self) -> None:
        self.final_message_count = 0  # Number of queued messages that are the final message of a context.
        # Each message, with the name of its context or None.
        self.items: deque[tuple[Outgoing, str | None]] = deque()
        self._message_count = 0

    @property
    def is_congested(self) -> bool:
        return self._message_count > _MAX_UNSENT_MESSAGES

    def add_message(
        self,
        message: Reply,
        *,
        number: int | None = None,
        samples: int = 0,
        is_terminal: bool = False,
        about: str | None = None,
    ) -> None:
        """Queue a JSON message.

        Args:
            message: Message to send.
            number: Number of the utterance to which the message belongs. `drop_audio_of` removes the message, too.
            samples: Number of audio samples in the message.
            is_terminal: True for the final message of a context.
            about: Name of the context. `drop_context` removes its messages.
        """
        item = TextMessage(_json(message), is_terminal, number, samples)
        self.items.append((item, about))
        self._count(item, 1)

    def add_encoded(self, make: Callable[[], Reply | None], *, number: int, samples: int, about: str) -> None:
        """Queue a JSON message with audio that a worker thread encodes before it is sent.

        Args:
            make: Function that encodes the audio and returns the message, or None to send no message.
            number: Number of the utterance.
            samples: Number of audio samples in the message.
            about: Name of the context.
        """

        def text() -> str:
            message = make()
            return "" if message is None else _json(message)

        self.items.append((EncodedMessage(text, number, samples), about))

    def add_audio(self, data: bytes, *, number: int, samples: int) -> None:
        self.items.append((AudioMessage(data, number, samples), None))

    def close(self, code: int, reason: str = "") -> None:
        self.items.append((Close(code, reason), None))

    def drop_audio_of(self, number: int) -> None:
        """Remove all unsent audio of an utterance from the queue."""
        self._retain(lambda item, _: isinstance(item, Close) or item.number != number)

    def drop_context(self, name: str) -> None:
        """Remove all unsent messages of a context from the queue."""
        self._retain(lambda _, about: about != name)

    def clear(self) -> None:
        self._retain(lambda *_: False)

    def pop_message(self) -> Outgoing | None:
        """Remove and return the next message, or return None if the queue is empty."""
        if not self.items:
            return None
        item, _ = self.items.popleft()
        self._count(item, -1)
        return item

    def _retain(self, stays: Callable[[Outgoing, str | None], bool]) -> None:
        self.items = deque(entry for entry in self.items if stays(*entry))
        self._message_count = 0
        self.final_message_count = 0
        for item, _ in self.items:
            self._count(item, 1)

    def _count(self, item: Outgoing, by: int) -> None:
        if isinstance(item, TextMessage) and item.number is None:
            self._message_count += by
            self.final_message_count += by * item.is_terminal


def _json(message: Reply) -> str:
    return json.dumps(message, separators=(",", ":"), allow_nan=False)
