"""Measures what a small card holds, imitated on a large one by the share of its memory that a runtime may take.

`python -m benchmarks.small_cards --set NAME=FOLDER,FOLDER --cards 24,16,12,8 --quantize off,int8`: for each card, set
of checkpoints and kind of weights a runtime starts, every slot of the first checkpoint speaks at once, and one client
speaks alone. `slots` are those of each checkpoint, in the order of the set ("9 + 10"). Beside each row stands what the
card was taken for at most, which must be less than the card has.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import httpx

from benchmarks import plan as plans
from benchmarks.arguments import parser_of, several
from benchmarks.cards import GB
from benchmarks.driver import ClientProcess, client_process
from benchmarks.figures import summary
from benchmarks.parts import free_bytes, total_bytes
from benchmarks.plan import Rounds
from benchmarks.report import show, tell
from benchmarks.sockets import runtime_process
from runtime.request import Mode
from runtime.settings import EngineSettings

LOOK_S = 0.05  # between two looks at the card
FRAME_MS = 80.0
Row = dict[str, Any]


class MemoryWatch:
    """The most that was taken of the card's memory, by everybody."""

    def __init__(self) -> None:
        self.most = 0

    async def look_on(self) -> None:
        """Look until cancelled."""
        while True:
            self.most = max(self.most, total_bytes() - free_bytes())
            await asyncio.sleep(LOOK_S)


async def measured(card: int, name: str, models: list[str], quantize: str) -> Row:
    """One row. A set that does not fit is a row too."""
    row: Row = {"card_gb": card, "set": name, "weights": quantize}
    empty, share = total_bytes() - free_bytes(), card * GB / total_bytes()
    environment = {
        "VOICEWRIGHT_MODEL": " ".join(models),
        "VOICEWRIGHT_QUANTIZE": quantize,
        "VOICEWRIGHT_MEMORY_SHARE": f"{EngineSettings().memory_share * share + empty / total_bytes():.4f}",
    }
    watch = MemoryWatch()
    looking = asyncio.create_task(watch.look_on())
    begun = time.monotonic()
    try:
        async with runtime_process([], environment) as runtime, client_process(runtime.url) as clients:
            row["start_s"] = round(time.monotonic() - begun, 1)
            row["loaded_gb"] = round((watch.most - empty) / GB, 2)
            row |= await spoken(runtime.url, clients)
    except SystemExit:  # its sentence is on stderr
        row["slots"] = "0"
    finally:
        looking.cancel()
    return row | {"most_gb": round((watch.most - empty) / GB, 2)}


async def spoken(url: str, clients: ClientProcess) -> Row:
    """The slots of each checkpoint of a runtime, and what is heard of the first."""
    async with httpx.AsyncClient(trust_env=False) as http:
        first, *others = (await http.get(f"{url}/v1/models")).json()["data"]
    mode = Mode(first["modes"][0])
    alone = summary((await clients.drive(plans.closed_loop(mode, 1, rounds=Rounds(2, 6)))).traces)
    heard = summary((await clients.drive(plans.closed_loop(mode, first["slots"], rounds=Rounds(1, 2)))).traces)
    return {
        "slots": " + ".join(str(model["slots"]) for model in (first, *others)),  # they need not be equal
        "first_pcm_p50_ms": alone["first_pcm_p50_ms"],
        "frame_ms": round(FRAME_MS * alone["rtf_p50"], 2),
        "all_audio_s_per_s": heard["audio_s_per_s"],
        "failed": alone["failed"] + heard["failed"],
    }


async def measure(cards: tuple[int, ...], sets: dict[str, list[str]], kinds: tuple[str, ...]) -> list[Row]:
    """Every row, told as it is found."""
    rows = []
    for card in cards:
        for name, models in sets.items():
            for quantize in kinds:
                rows.append(await measured(card, name, models, quantize))
                tell(str(rows[-1]))
    return rows


def main() -> int:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--set", action="append", required=True, metavar="NAME=FOLDER[,FOLDER]")
    parser.add_argument("--cards", type=several(int), default=(24, 16, 12, 8), help="GB")
    parser.add_argument("--quantize", type=several(str), default=("off", "int8"))
    arguments = parser.parse_args()
    sets = {}
    for text in arguments.set:
        name, _, folders = text.partition("=")
        sets[name] = folders.split(",")
    rows = asyncio.run(measure(arguments.cards, sets, arguments.quantize))
    tables = {"small cards": rows}
    show(tables, arguments.json, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
