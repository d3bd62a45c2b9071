"""How far the engine's parts are from what the card could do: floors by measured rates, and where the rest goes.

    python -m benchmarks.limits --model FOLDER --batches 1,8,32,64,128,256 --prompts 32,128,512 --json FILE

First the card's own rates: bytes a second of a large copy (read and written) and of reading alone, operations a second
of a large product in bfloat16. A part's floor is the larger of two times: the bytes that it cannot do without (weights
once a pass, keys and values of the rows) at the rate of reading, and its multiplications at the product's rate. Then
milliseconds of frames, code predictor and prefill beside their floors (``benchmarks.engine``), and with ``--profile``
which kernels they are spent in: a kernel has the time by which it moves the end of everything before it, so that the
times of all add up, although each begins while the one before still runs. With ``--clients`` the engine runs with its
threads for so many who ask again and again, and a second of that is told by kernel: there each kernel has its own time,
and what runs beside it has the same (`VOICEWRIGHT_LEAD_CAP_S=3600` lets it make as much as it can). On a device without
a profiler of kernels nothing is told by kernel.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks import plan as plans
from benchmarks.arguments import parser_of, settings_of_checkpoint, several
from benchmarks.driver import drive
from benchmarks.engine import Grid, measure_engine
from benchmarks.figures import summary
from benchmarks.parts import Parts, synchronize
from benchmarks.plan import Rounds
from benchmarks.report import card, show, tables_of, tell
from benchmarks.speakers import EngineSpeaker
from runtime.engine.capacity.probe import bytes_per_weight, layer_size
from runtime.model.config import DecoderConfig, ModelConfig

LARGE = 2**31  # bytes that are copied and read: many times what stays in a cache
SMALL = 2**24  # the same where there is no card
SIDE, SMALL_SIDE = 8192, 256  # of the matrices
REPEATS = 10
NUMBER = 2  # bytes of one, in bfloat16
LISTED = 14  # kernels of a part
COMPANY_ROUNDS, BEFORE_S, HEARD_S = 6, 1.5, 1.0
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rates:
    """What a card does: bytes a second copied (read and written) and read, operations a second of a product."""

    copied: float
    read: float
    multiplied: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Numbers that have to be read, those of weights apart, and operations that have to be done."""

    weights: float
    kept: float  # keys and values
    operations: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.weights + other.weights, self.kept + other.kept, self.operations + other.operations)

    def floor_ms(self, rates: Rates, weight_bytes: float = NUMBER) -> float:
        """``weight_bytes``: of one weight."""
        read = weight_bytes * self.weights + NUMBER * self.kept
        return 1000 * max(read / rates.read, self.operations / rates.multiplied)


def measured_rates() -> Rates:
    """Of this device, each the fastest of some."""
    has_card = torch.accelerator.is_available()
    device = torch.accelerator.current_accelerator() if has_card else torch.device("cpu")
    count = (LARGE if has_card else SMALL) // 4
    source = torch.randn(count, device=device)
    target = torch.empty_like(source)
    side = SIDE if has_card else SMALL_SIDE
    left, right = (torch.randn((side, side), device=device).bfloat16() for _ in "ab")
    out = torch.empty_like(left)

    def fastest(work: Callable[[], object]) -> float:
        work()
        spent = []
        for _ in range(REPEATS):
            synchronize()
            began = time.perf_counter()
            work()
            synchronize()
            spent.append(time.perf_counter() - began)
        return min(spent)

    def multiplied() -> Tensor:
        return torch.mm(left, right, out=out)

    return Rates(
        copied=2 * source.nbytes / fastest(lambda: target.copy_(source)),
        read=source.nbytes / fastest(lambda: torch.amax(source)),
        multiplied=2 * side**3 / fastest(multiplied),
    )


def weights_of(decoder: DecoderConfig) -> int:
    """Numbers of the matrices of all layers."""
    return decoder.num_hidden_layers * layer_size(decoder)


def _layers(decoder: DecoderConfig, rows: int, context: float) -> Cost:
    """One pass of rows that see so many positions each, every row its own; those of a prompt share theirs."""
    kept = 2 * decoder.num_hidden_layers * decoder.num_key_value_heads * decoder.head_dim  # keys and values
    attended = 4 * decoder.num_hidden_layers * decoder.num_attention_heads * decoder.head_dim * context
    weights = weights_of(decoder)
    return Cost(weights, rows * context * kept, rows * (2 * weights + attended))


def _head(decoder: DecoderConfig, rows: int) -> Cost:
    weights = decoder.vocab_size * decoder.hidden_size
    return Cost(weights, 0, 2 * rows * weights)


def predictor_cost(config: ModelConfig, rows: int) -> Cost:
    """Codes 1 to Q-1: a pass a code, each of which reads all of the weights; none of them stay in the cache."""
    total = Cost(0, 0, 0)
    for done in range(config.talker.num_code_groups - 1):
        # The first pass has two positions: the talker's result and code 0.
        total += _layers(config.predictor, rows * (2 if done == 0 else 1), done + 2) + _head(config.predictor, rows)
    return total


def frame_cost(config: ModelConfig, rows: int, context: int) -> Cost:
    """A frame of rows at a position."""
    return _layers(config.talker, rows, context) + _head(config.talker, rows) + predictor_cost(config, rows)


def prefill_cost(config: ModelConfig, positions: int) -> Cost:
    """A prompt, and its first frame."""
    decoder, weights = config.talker, weights_of(config.talker)
    attended = 4 * decoder.num_hidden_layers * decoder.num_attention_heads * decoder.head_dim * positions / 2
    read = Cost(weights, 0, positions * (2 * weights + attended))
    return read + _head(decoder, 1) + predictor_cost(config, 1)


def by_kernel(work: Callable[[], object], repeats: int = REPEATS) -> list[Row]:
    """Microseconds that each kernel takes in one piece of work, and how often it runs; the longest first."""
    if not torch.cuda.is_available():
        return []
    work()
    synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(repeats):
            work()
            synchronize()
    spent: dict[str, float] = defaultdict(float)
    counted: dict[str, int] = defaultdict(int)
    before = 0.0
    for end, start, name in sorted(_spans(profiled)):
        spent[name] += end - max(before, start)
        counted[name] += 1
        before = max(before, end)
    return _listed(spent, counted, repeats)


def _spans(profiled: profile) -> list[tuple[float, float, str]]:
    """End, begin (microseconds) and name of everything that the card has run."""
    return [
        (event.time_range.end, event.time_range.start, event.name)
        for event in profiled.events() or []  # type: ignore[no-untyped-call]
        if "CUDA" in str(event.device_type)
    ]


def _listed(spent: dict[str, float], counted: dict[str, int], repeats: float) -> list[Row]:
    rows: list[Row] = [
        {"kernel": name[:70], "us": round(took / repeats, 1), "launches": round(counted[name] / repeats, 1)}
        for name, took in sorted(spent.items(), key=lambda pair: -pair[1])
    ]
    for name, of in (("all others", rows[LISTED:]), ("together", list(rows))):
        if of:
            us, launches = (round(sum(row[column] for row in of), 1) for column in ("us", "launches"))
            rows = [*(rows[:LISTED] if name == "all others" else rows)]
            rows.append({"kernel": name, "us": us, "launches": launches})
    return rows


def company(parts: Parts, clients: int) -> tuple[Row, list[Row]]:
    """A closed loop of the started engine: its figures, and what the kernels of a second of it take together."""
    mode = parts.engine.cards[0].modes[0]
    plan = plans.closed_loop(mode, clients, rounds=Rounds(1, COMPANY_ROUNDS))
    kept: list[profile] = []

    def overhear() -> None:
        time.sleep(BEFORE_S)
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            time.sleep(HEARD_S)
        kept.append(profiled)

    listener = threading.Thread(target=overhear)
    if torch.cuda.is_available():
        listener.start()
    figures = summary(asyncio.run(drive(plan, EngineSpeaker(parts.engine))))
    row = {"clients": clients, **{name: figures[name] for name in ("calls", "first_pcm_p50_ms", "audio_s_per_s")}}
    if not torch.cuda.is_available():
        return row, []
    listener.join()
    spent: dict[str, float] = defaultdict(float)
    counted: dict[str, int] = defaultdict(int)
    for end, start, name in _spans(kept[0]):
        spent[name] += end - start
        counted[name] += 1
    return row, _listed(spent, counted, HEARD_S)


def profiles(parts: Parts, batches: Sequence[int], prompts: Sequence[int], context: int) -> dict[str, list[Row]]:
    """Tables by kernel: prefill with its first frame, code predictor, frames."""
    tables: dict[str, list[Row]] = {}
    for positions in prompts:
        tell(f"kernels of prefill, {positions} positions")
        tables[f"kernels: prefill of {positions} positions"] = by_kernel(partial(parts.prefill, positions))
    for batch in batches:
        tell(f"kernels of frames and code predictor, {batch} rows")
        tables[f"kernels: predictor, {batch} rows"] = by_kernel(partial(parts.predict, batch))
        slots = parts.begin(batch, context)
        tables[f"kernels: frame, {batch} rows"] = by_kernel(lambda: parts.launch(slots)())  # noqa: B023
        parts.end(slots)
    return {name: rows for name, rows in tables.items() if rows}


def floors(config: ModelConfig, rates: Rates, tables: dict[str, list[Row]], weight_bytes: float = NUMBER) -> None:
    """Write its floor, and how many times that it takes, into every row that has one."""
    kinds: dict[str, tuple[str, Callable[[Row], Cost]]] = {
        "frames": ("frame_ms", lambda row: frame_cost(config, row["batch"], row["context"])),
        "predictor": ("predictor_ms", lambda row: predictor_cost(config, row["batch"])),
        "prefill": ("prefill_ms", lambda row: prefill_cost(config, row["positions"])),
    }
    for name, (column, cost_of) in kinds.items():
        for row in tables[name]:
            floor = cost_of(row).floor_ms(rates, weight_bytes)
            row["floor_ms"], row["times"] = round(floor, 3), round(row[column] / floor, 2)


def main() -> int:
    """Measure rates, parts and, where asked, kernels; what there is so far is in the file after each."""
    parser, numbers = parser_of(__doc__), several(int)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batches", type=numbers, default=(1, 8, 32, 64))
    parser.add_argument("--prompts", type=numbers, default=(32, 128, 512))
    parser.add_argument("--context", type=int, default=100, help="positions of the rows of a frame")
    parser.add_argument("--frames", type=int, default=40, help="counted of each part")
    parser.add_argument("--length", type=int, default=700, help="positions of a slot")
    parser.add_argument("--quantize", help="off, or int8: bits of the weights, in place of what the settings say")
    parser.add_argument("--profile", action="store_true", help="by kernel too")
    parser.add_argument("--clients", type=numbers, default=(), help="the whole engine by kernel too")
    arguments = parser.parse_args()
    rates = measured_rates()
    measured = {"card": card(), "copied_tb_s": rates.copied / 1e12, "read_tb_s": rates.read / 1e12}
    measured["tflop_s"] = rates.multiplied / 1e12
    tables: dict[str, list[Row]] = {
        "rates": [{name: round(value, 3) if isinstance(value, float) else value for name, value in measured.items()}]
    }
    whole = settings_of_checkpoint(arguments.model, max(arguments.batches), arguments.length, arguments.quantize)
    parts = Parts(whole, tell)
    grid = Grid(
        batches=arguments.batches,
        contexts=(arguments.context,),
        prompts=arguments.prompts,
        sounds=((1, 1), (12, 1), (12, 32)),
        counted=arguments.frames,
    )
    tables |= measure_engine([("ours", whole)], grid, tell, opened=[parts])
    checkpoint = parts.core.checkpoint
    floors(checkpoint.config, rates, tables, bytes_per_weight(torch.bfloat16, checkpoint.quantization))
    show(tables, arguments.json, tables)
    if arguments.profile:
        told = profiles(parts, arguments.batches, arguments.prompts, arguments.context)
        print(tables_of(told))
        tables |= told
        _keep(arguments.json, tables)
    if arguments.clients:
        parts.engine.start()
        try:
            tables["company"] = []
            for clients in arguments.clients:
                tell(f"company of {clients}")
                row, kernels = company(parts, clients)
                tables["company"].append(row)
                tables |= {f"kernels: a second of {clients} clients": kernels} if kernels else {}
                print(tables_of({"company": [row], "kernels": kernels}))
                _keep(arguments.json, tables)
        finally:
            parts.engine.close()
    return 0


def _keep(file: Path | None, tables: dict[str, list[Row]]) -> None:
    if file is not None:
        file.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
