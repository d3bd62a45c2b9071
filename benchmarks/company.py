"""What company costs the first sound: prompts of a length that are read at once, and clients that ask at once.

    python -m benchmarks.company --model FOLDER --clients 1,4,8,16 --positions 30,70,150 --json FILE

``read_ms`` is the engine's part by itself: so many prompts, up to eight in one go as in service, until all of their
first frames are there. ``first_pcm`` is the whole engine with its threads: so many requests in the same moment, again
and again, each of which wants a second of sound; from then to the first sound of each. Texts are one sentence each
that makes a prompt just as long as is asked for, no two of a round alike.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from benchmarks.arguments import parser_of, settings_of_checkpoint, several
from benchmarks.figures import nearest_rank, rounded
from benchmarks.parts import TEXT, Parts, timed
from benchmarks.report import tell
from runtime.engine.engine import Engine
from runtime.engine.prompt import Prompt
from runtime.engine.slots import SlotInputs, fill_in
from runtime.request import AudioChunk, Broken, Finished, Mode, Sampling, SpeechEvent, SpeechRequest, Split

WORDS = (
    *("old", "quiet", "boat", "lights", "harbour", "market", "garden", "river"),
    *("letter", "window", "story", "train", "morning", "winter", "evening"),
)
FRAMES, TOGETHER, WARM_UPS = 12, 8, 3
WAIT_S = 60
Row = dict[str, Any]


class Texts:
    """Texts by the length of their prompts, in a mode that reads the whole text before its first frame."""

    def __init__(self, parts: Parts) -> None:
        self._tokenizer = parts.core.checkpoint.text_tokenizer
        self._beside = len(parts.prompt(TEXT).embeds) - len(self._tokenizer.body(TEXT))
        self._serial = 0

    def text(self, positions: int) -> str:
        """A text that was not given out before; its prompt has so many positions, or as few more as words allow."""
        self._serial += 1
        first, step = self._serial * 7, 1 + self._serial % 13
        said = ""
        for number in count(first, step):
            said = f"{said} {WORDS[number % len(WORDS)]}" if said else f"{self._serial}"
            if self._beside + len(self._tokenizer.body(f"{said}.")) >= positions:
                return f"{said}."
        raise AssertionError


def read(parts: Parts, prompts: list[Prompt]) -> None:
    """Read some prompts, at most ``TOGETHER`` at once, up to and with their first frames."""
    runner = parts.core.runner
    settings = fill_in(Sampling(), parts.core.checkpoint.config.generation)
    slots = [runner.slot_cache.take(SlotInputs(settings, row, prompt.trailing)) for row, prompt in enumerate(prompts)]
    left = [(slot, prompt, 0) for slot, prompt in zip(slots, prompts, strict=True)]
    while left:
        now, left = left[:TOGETHER], left[TOGETHER:]
        stops = runner.prefill_chunks(now)
        again = [(slot, prompt, stop) for (slot, prompt, _), stop in zip(now, stops, strict=True)]
        left = [one for one in again if one[2] < len(one[1].embeds)] + left
        through = [slot for slot, prompt, stop in again if stop == len(prompt.embeds)]
        if through:
            runner.first(np.array(through)).result()
    for slot in slots:
        runner.slot_cache.give_back(slot)


def heard(engine: Engine, texts: list[str], mode: Mode, seed: int) -> list[tuple[float, int]]:
    """Milliseconds to the first sound of each of some requests made at once, and the positions of its prompt."""
    done = threading.Semaphore(0)
    firsts, positions = [0.0] * len(texts), [0] * len(texts)
    begans = [0.0] * len(texts)

    def ask(place: int) -> None:
        def sink(event: SpeechEvent) -> None:
            if isinstance(event, AudioChunk) and not firsts[place]:
                firsts[place] = 1000 * (time.perf_counter() - begans[place])
            elif isinstance(event, Finished | Broken):
                positions[place] = event.stats.prompt_tokens
                done.release()

        begans[place] = time.perf_counter()
        engine.submit(
            SpeechRequest(text=texts[place], mode=mode, seed=seed + place, max_frames=FRAMES, split=Split.NONE), sink
        )

    for place in range(len(texts)):
        ask(place)
    for _ in texts:
        if not done.acquire(timeout=WAIT_S):
            raise TimeoutError("a reply did not come to its end")
    return list(zip(firsts, positions, strict=True))


def main() -> int:
    """Measure what is asked for; a line a point, and all of them as JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=several(int), default=(1, 4, 8, 16))
    parser.add_argument("--positions", type=several(int), default=(30, 70, 150))
    parser.add_argument("--rounds", type=int, default=12, help="of each point, those that count")
    parser.add_argument("--length", type=int, default=700, help="positions of a slot")
    parser.add_argument("--label", default="ours", help="a name for what is measured")
    arguments = parser.parse_args()
    parts = Parts(settings_of_checkpoint(arguments.model, max(arguments.clients), arguments.length), tell)
    mode, texts, rows = parts.engine.cards[0].modes[0], Texts(parts), list[Row]()
    for positions in arguments.positions:
        for clients in arguments.clients:
            prompts = [parts.prompt(texts.text(positions), FRAMES) for _ in range(clients)]
            rounds = [timed(partial(read, parts, prompts)) for _ in range(WARM_UPS + arguments.rounds)][WARM_UPS:]
            rows.append(
                {
                    "arm": arguments.label,
                    "what": "read",
                    "positions": len(prompts[0].embeds),
                    "clients": clients,
                    "p50_ms": rounded(nearest_rank(rounds, 0.5), 2),
                    "slowest_ms": rounded(max(rounds), 2),
                }
            )
            print(rows[-1], flush=True)
    said = {
        (positions, clients): [
            [texts.text(positions) for _ in range(clients)] for _ in range(WARM_UPS + arguments.rounds)
        ]
        for positions in arguments.positions
        for clients in arguments.clients
    }
    parts.engine.start()
    try:
        for (positions, clients), rounds_of_texts in said.items():
            replies = [heard(parts.engine, round_, mode, serial) for serial, round_ in enumerate(rounds_of_texts)]
            counted = [reply for round_ in replies[WARM_UPS:] for reply in round_]
            firsts = [first for first, _ in counted]
            rows.append(
                {
                    "arm": arguments.label,
                    "what": "first_pcm",
                    "positions": positions,
                    "clients": clients,
                    "replies": len(firsts),
                    "prompt_tokens": sorted({length for _, length in counted}),
                    "p50_ms": rounded(nearest_rank(firsts, 0.5), 2),
                    "p95_ms": rounded(nearest_rank(firsts, 0.95), 2),
                    "slowest_ms": rounded(max(firsts), 2),
                }
            )
            print(rows[-1], flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    finally:
        parts.engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
