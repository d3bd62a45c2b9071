"""Checks, error fields and final statistics of dialogues, shared by all APIs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from runtime.errors import EmptyText, InvalidConfig, SpeechError
from runtime.request import Finished, RequestStats, StopReason
from runtime.server.wire import check_text
from runtime.settings import Limits

MAX_TURNS = 128
MAX_VOICES = 10  # Limit of ElevenLabs' API.
MAX_TURN_PAUSE_MS = 10_000.0
TURN_PAUSE_MS = 250.0


class Turn(Protocol):
    """Interface of one turn of a dialogue: a text and the name of a voice."""

    @property
    def text(self) -> str: ...

    @property
    def voice_name(self) -> str | None: ...


def check_turns(turns: Sequence[Turn], limits: Limits) -> None:
    """Check the total length of the text in a dialogue and the number of voices.

    Raises:
        TextTooLong: The texts of all turns together are too long.
        InvalidConfig: The dialogue has too many voices.
    """
    check_text(sum(len(turn.text) for turn in turns), limits, param="inputs")
    if len({turn.voice_name for turn in turns}) > MAX_VOICES:
        raise InvalidConfig(where="inputs", why=f"they may have at most {MAX_VOICES} voices", param="inputs")


@contextmanager
def errors_of_turn(index: int, fields: Mapping[str, str]) -> Iterator[None]:
    """Add a dialogue turn's number to the field name of an error in the ``with`` block.

    For example, `voice_id` in the turn with index 3 becomes `inputs.3.voice_id`.
    """
    try:
        yield
    except SpeechError as error:
        if (field := fields.get(error.param or "")) is not None:
            error.param = turn_field(index, field)
        raise


def turn_field(index: int, field: str) -> str:
    return f"inputs.{index}.{field}"


def check_turn_text(text: str) -> None:
    """Check that the filtered text of a dialogue turn is not empty.

    Raises:
        EmptyText: The text is empty.
    """
    if not text.strip():
        raise EmptyText(param="text")


def join_ends(ends: Sequence[Finished]) -> Finished:
    """Combine the final events of all turns of a dialogue into one event.

    The result has the total statistics. Its stop reason is the first stop reason that is not EOS, if there is one.
    """
    if len(ends) == 1:
        return ends[0]
    stats = [end.stats for end in ends]
    return Finished(
        stop_reason=next((end.stop_reason for end in ends if end.stop_reason is not StopReason.EOS), StopReason.EOS),
        stats=RequestStats(
            queue_ms=sum(each.queue_ms for each in stats),
            prefill_ms=sum(each.prefill_ms for each in stats),
            ttfa_ms=stats[0].ttfa_ms,
            total_ms=sum(each.total_ms for each in stats),
            prompt_tokens=sum(each.prompt_tokens for each in stats),
            frames=sum(each.frames for each in stats),
            audio_s=sum(each.audio_s for each in stats),
            parts=sum(each.parts for each in stats),
            repeated=sum(each.repeated for each in stats),
            underruns=sum(each.underruns for each in stats),
            guard=next((each.guard for each in stats if each.guard is not None), None),
        ),
        notes=tuple(dict.fromkeys(note for end in ends for note in end.notes)),
    )
