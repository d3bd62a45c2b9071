"""Code2Wav of published size on a card, by frames and batch: is it right, how long does it take, where does time go.

    python3 -m benchmarks.sound [--quick] [--profile] [--json FILE]

Random weights; nothing is read but this tree. Three ways: the library's operations one by one, the same in a graph,
and the kernels in graphs. Milliseconds are of the device, from the first copy to the last, medians of many replays.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from runtime.device.cuda import CudaDevice
from runtime.device.interface import Stream
from runtime.engine.code2wav_streams import Code2WavStreams
from runtime.model.code2wav import Code2Wav
from runtime.model.config import Code2WavConfig
from runtime.model.products import Conv, Linear, TransposedConv
from runtime.model.sound import LibrarySound, SoundNetwork, to_s16

SHAPES = ((1, 1), (2, 1), (4, 1), (1, 8), (12, 1), (4, 8), (12, 8), (16, 16), (1, 32), (4, 32), (12, 32), (16, 32))
QUICK = ((1, 1), (12, 1), (1, 32), (12, 32))
LOUDNESS = 0.2  # standard deviation of the sound; full scale is 1


def published() -> Code2WavConfig:
    """decoder_config of every published checkpoint (docs/model.md 1.3)."""
    return Code2WavConfig(
        codebook_size=2048,
        num_quantizers=16,
        codebook_dim=512,
        latent_dim=1024,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=64,
        sliding_window=72,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        attention_bias=False,
        hidden_act="silu",
        decoder_dim=1536,
        upsample_rates=(8, 5, 4, 3),
        upsampling_ratios=(2, 2),
    )


def random_network(config: Code2WavConfig, device: torch.device, seed: int = 0) -> Code2Wav:
    """Weights under which every layer matters and the sound is neither silent nor clipped."""
    torch.manual_seed(seed)
    with torch.device(device):
        network = Code2Wav(config)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            last = name.rsplit(".", 1)[-1]
            if last in ("alpha", "beta"):
                weight.normal_(0, 0.3)
            elif last == "cluster_usage":
                weight.uniform_(0.5, 1.5)
            elif last in ("gamma", "scale"):
                weight.fill_(0.3)
            elif "norm" in name and last == "weight":
                weight.normal_(1, 0.1)
            elif weight.dim() < 2:
                weight.normal_(0, 0.02)
            elif last == "embedding_sum":
                weight.normal_(0, 0.3)
            else:
                inputs = weight[0].numel()
                if "block.1.conv" in name or ("upsample" in name and weight.dim() == 3 and "dwconv" not in name):
                    inputs = weight.shape[0] * (2 if "block.1" in name else 1)  # of a transposed convolution
                weight.normal_(0, 0.7 / inputs**0.5)
        parts: Any = network.decoder  # torch's types do not know what a list of modules holds
        _, *blocks, _, end = parts
        for block in blocks:  # residual branches that do not drown what they are added to
            for unit in block.block[2:]:
                unit.conv2.conv.weight.mul_(0.4)
    network.requires_grad_(False)
    last = end.conv
    last.weight.mul_(0.001)  # nothing is clipped
    codes = torch.randint(0, config.codebook_size, (1, 4, config.num_quantizers), device=device)
    wave = network(codes, network.fresh_state(1))
    last.weight.mul_(LOUDNESS / wave.std())
    last.bias.zero_()
    return network


def rounded(network: Code2Wav) -> Code2Wav:
    """The network with weights and the inputs of its products in bfloat16, sums in float32: what the dtype costs."""

    def narrow(value: Tensor) -> Tensor:
        return value.bfloat16().to(value.dtype)

    other = copy.deepcopy(network)
    for weight in other.parameters():
        if weight.dim() > 1:
            weight.copy_(narrow(weight))
    for module in other.modules():
        if isinstance(module, Linear | Conv | TransposedConv):
            module.register_forward_pre_hook(lambda _, inputs: (narrow(inputs[0]),))
    return other


def snr_db(truth: Tensor, other: Tensor) -> float:
    noise = (truth - other).double().pow(2).mean()
    return float(10 * torch.log10(truth.double().pow(2).mean() / noise.clamp(min=1e-30)))


@torch.inference_mode()
def check(network: Code2Wav, sound: SoundNetwork, samples: int, slots: int) -> dict[str, Any]:
    """The kernels against the network in float32: signal to noise, largest difference; bits in company and alone."""
    config, device = network.config, network.pre_conv.conv.weight.device
    frames, rows = 24, 5
    codes = torch.randint(0, config.codebook_size, (rows, frames, config.num_quantizers), device=device)
    truth = to_s16(network(codes, network.fresh_state(rows))).float() / 32767
    narrow = rounded(network)
    yardstick = to_s16(narrow(codes, narrow.fresh_state(rows))).float() / 32767

    def decoded(members: list[int], cuts: list[int], places: list[int]) -> Tensor:
        for place in places:
            sound.reset(place)
        parts, begin, turn = [], 0, 0
        for cut in cuts:
            numbers = torch.tensor([[place, turn, begin] for place in places], device=device, dtype=torch.int32)
            made = sound.decode(numbers, codes[members, begin : begin + cut].to(torch.int32).contiguous())
            if made[:, cut * samples :].any():
                raise ArithmeticError(
                    f"frames {begin} to {begin + cut} are not finite: {_first_broken(sound, numbers)}"
                )
            parts.append(made[:, : cut * samples])
            begin, turn = begin + cut, 1 - turn
        return torch.cat(parts, 1)

    everybody = list(range(rows))
    whole = decoded(everybody, [12, 12], [3, 0, 2, slots - 2, 1])
    cut = decoded(everybody, [1, 1, 2, 4, 16], [0, 1, 2, 3, 4])
    alone = decoded([2], [12, 12], [1])
    crowd = decoded([2, *([0, 1, 3] * 11)[: slots - 2]], [12, 12], list(range(slots - 1)))
    ours = whole.float() / 32767
    return {
        "rms": round(float(truth.std()), 4),
        "clipped": round(float((truth.abs() > 0.9999).float().mean()), 4),
        "snr_db": round(snr_db(truth, ours), 1),
        "snr_db_of_bfloat16": round(snr_db(truth, yardstick), 1),
        "largest_error": round(float((truth - ours).abs().max()), 5),
        "alone_equals_batch_of_5": bool(torch.equal(alone[0], whole[2])),
        "alone_equals_crowd": bool(torch.equal(alone[0], crowd[0])),
        "steps_between_chunkings": int((whole.int() - cut.int()).abs().max()),
    }


def _first_broken(sound: Any, rows: Tensor) -> str:
    """The first operation whose result is not finite, in a chunk of one frame more."""
    from runtime.model import packed_sound

    story: list[str] = []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **named: Any) -> Any:
            made = work(*arguments, **named)
            parts = [made] if isinstance(made, Tensor) else [made.plain, made.activated]
            if any(part is not None and not part.float().isfinite().all() for part in parts):
                shapes = [tuple(argument.shape) for argument in arguments if isinstance(argument, Tensor)]
                story.append(f"{work.__name__} {shapes} {sorted(named)}")
            return made

        return noted

    names = ("convolve", "residual_unit", "attend_window", "normed_depthwise", "look_up")
    with ExitStack() as patches:
        for name in names:
            patches.enter_context(mock.patch.object(packed_sound, name, noting(getattr(packed_sound, name))))
        groups = sound.network.tables.shape[0]
        sound.decode(rows, torch.zeros(len(rows), 1, groups, device=rows.device, dtype=torch.int32))
    memory = f"memory {bool(sound.memory.isfinite().all())}, rings {bool(sound.rings.isfinite().all())} finite"
    return f"{len(story)} broken results, first {story[:1]}; {memory}"


@torch.inference_mode()
def check_float32(network: Code2Wav, config: Code2WavConfig, slots: int) -> dict[str, Any]:
    """The same kernels in float32: a wrong index would show here, whatever bfloat16 hides."""
    from runtime.model.packed_sound import PackedSound

    whole = check(network, PackedSound(network, slots, torch.float32), config.samples_per_frame, slots)
    return {key: whole[key] for key in ("snr_db", "largest_error", "steps_between_chunkings")}


def device_ms(work: Callable[[], object], seconds: float = 0.4) -> float:
    """Median of single runs, each between two events."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def inputs_of(config: Code2WavConfig, device: torch.device, frames: int, batch: int) -> tuple[Tensor, Tensor]:
    rows = torch.tensor([[slot, 0, 100] for slot in range(batch)], device=device, dtype=torch.int32)
    codes = torch.randint(0, config.codebook_size, (batch, frames, config.num_quantizers), device=device)
    return rows, codes.to(torch.int32)


@torch.inference_mode()
def timed(
    device: CudaDevice, sound: SoundNetwork, config: Code2WavConfig, frames: int, batch: int, graph: bool
) -> float:
    rows, codes = inputs_of(config, device.torch_device, frames, batch)
    if not graph:
        return device_ms(lambda: sound.decode(rows, codes))
    captured = device.capture(lambda: sound.decode(rows, codes), Stream.SOUND)
    with device.stream(Stream.SOUND):
        return device_ms(captured.replay)


@torch.inference_mode()
def whole_call(streams: Code2WavStreams, frames: int, batch: int, groups: int) -> float:
    """Milliseconds of the host from codes to bytes, as the Code2Wav worker sees them."""
    codes = torch.randint(0, 2048, (batch, frames, groups))
    slots = list(range(batch))
    for slot in slots:
        streams.open(slot)
    times = []
    for _ in range(12):
        began = time.perf_counter()
        streams.decode(slots, codes)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[2:])


@torch.inference_mode()
def profiled(sound: SoundNetwork, config: Code2WavConfig, device: torch.device, frames: int, batch: int) -> list[str]:
    """Kernels by time in one call, run eagerly so that each has its name."""
    from torch.profiler import ProfilerActivity, profile

    rows, codes = inputs_of(config, device, frames, batch)
    sound.decode(rows, codes)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as result:
        sound.decode(rows, codes)
        torch.cuda.synchronize()
    events = [event for event in result.events() if event.device_type.name == "CUDA"]
    total = sum(event.time_range.elapsed_us() for event in events)
    lines = [f"{frames} x {batch}: {len(events)} kernels, {total / 1000:.3f} ms of kernel time; in order:"]
    for index, event in enumerate(sorted(events, key=lambda event: event.time_range.start)):
        lines.append(f"  {index:3d} {event.time_range.elapsed_us():8.1f} us  {event.name[:60]}")
    return lines


def tried(label: str, work: Callable[[], Any]) -> Any:
    """What a variant says, or None: one that fails lets the others go on."""
    try:
        return work()
    except Exception:
        print(f"--- {label} failed", flush=True)
        traceback.print_exc(limit=-6)
        return None


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four shapes only")
    parser.add_argument("--profile", action="store_true", help="every kernel of 1 x 1 and 12 x 32 with its time")
    parser.add_argument(
        "--streams", action="store_true", help="capture the whole family; calls as the Code2Wav worker makes them"
    )
    parser.add_argument("--json", help="write the figures there")
    chosen = parser.parse_args(arguments)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # until the truth is known
    device, config = CudaDevice(), published()
    where = device.torch_device
    with torch.inference_mode():
        network = random_network(config, where)
    shapes = QUICK if chosen.quick else SHAPES
    slots = max(batch for _, batch in shapes) + 2
    report: dict[str, Any] = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "ms": {}}
    library = LibrarySound(network, slots)

    def pack() -> SoundNetwork:
        from runtime.model.packed_sound import PackedSound

        began = time.perf_counter()
        packed = PackedSound(network, slots, torch.bfloat16)
        report["pack_s"] = round(time.perf_counter() - began, 2)
        return packed

    packed = tried("packing", pack)
    if packed is not None:
        began = time.perf_counter()
        report["check"] = tried("check", lambda: check(network, packed, config.samples_per_frame, slots))
        report["check_s"] = round(time.perf_counter() - began, 1)
        report["check_float32"] = tried("check in float32", lambda: check_float32(network, config, slots))
        print(report["check"], f"in {report['check_s']} s, kernels compiled", flush=True)
    if chosen.profile and packed is not None:
        for frames, batch in ((1, 1), (12, 32)):
            print("\n".join(tried("profile", lambda: profiled(packed, config, where, frames, batch)) or []), flush=True)  # noqa: B023
    torch.backends.cudnn.allow_tf32 = True  # as the library comes
    for frames, batch in shapes:
        ways: dict[str, float | None] = {}
        if packed is not None:
            ways["kernels, graph"] = tried("kernels", lambda: timed(device, packed, config, frames, batch, True))  # noqa: B023
        ways["library, graph"] = tried("library graph", lambda: timed(device, library, config, frames, batch, True))  # noqa: B023
        ways["library"] = tried("library", lambda: timed(device, library, config, frames, batch, False))  # noqa: B023
        report["ms"][f"{frames}x{batch}"] = ways
        torch.cuda.empty_cache()
    if chosen.streams:
        tried("streams", lambda: _streams(network, device, report))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    _table(report)


def _streams(network: Code2Wav, device: CudaDevice, report: dict[str, Any]) -> None:
    streams = Code2WavStreams(network, 32, device, torch.bfloat16)
    free, began = device.free_bytes(), time.perf_counter()
    streams.capture()
    report["prepare_s"] = round(time.perf_counter() - began, 1)
    report["graphs_MiB"] = (free - device.free_bytes()) // 2**20
    report["call_ms"] = {
        f"{frames}x{batch}": round(whole_call(streams, frames, batch, network.config.num_quantizers), 3)
        for frames, batch in QUICK
    }


def _table(report: dict[str, Any]) -> None:
    print(json.dumps({key: value for key, value in report.items() if key != "ms"}))
    print("| frames x batch | kernels, graph | library, graph | library |\n|---|---|---|---|")
    for shape, ways in report["ms"].items():
        cells = [ways.get(way) for way in ("kernels, graph", "library, graph", "library")]
        print(f"| {shape} | " + " | ".join("-" if cell is None else f"{cell:.3f}" for cell in cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
