"""Tests for the engine on a simulated NPU: the codes are equal to those on the CPU.

The tests run with graphs and without graphs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Graph, Stream
from runtime.device.npu import NpuDevice
from runtime.device.npu_attention import BOTTOM_RIGHT, EXPLICIT_MASK_MODE
from runtime.engine.audio.code2wav_graphs import GRAPH_SHAPES
from runtime.engine.engine import Engine
from runtime.engine.execution.graphs import GraphKind
from runtime.engine.execution.model_runner import PLAIN, SORTED, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.slots import NetworkSamplingParams, RequestSamplingParams, SlotInputs
from runtime.errors import DeviceUnavailable
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.request import Layout, Sampling, SpeechRequest
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf, Loaded
from tests.support.engines import (
    GREEDY,
    Codes,
    cloned,
    core_of,
    custom_voice,
    engine_of,
    speak,
    speak_together,
    streamed,
    voice_design,
)
from tests.support.torch_npu_stand_in import StandIn
from tests.unit.device.conftest import LoadedOnNpu

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture graphs for only a few batch and chunk sizes.

    Capturing graphs for all sizes would take too long.
    """
    for name, sizes in (("DECODE_BUCKETS", (1, 2, 6, 12)), ("PROMPT_BATCH_SIZES", (1, 4))):
        monkeypatch.setattr(f"runtime.engine.execution.model_runner.{name}", sizes)
    monkeypatch.setattr("runtime.engine.execution.prompt_batches.CHUNK_POSITIONS", (16, 64))
    monkeypatch.setattr("runtime.device.npu.WARM_UP_RUNS", 1)


def varied(count: int) -> list[SpeechRequest]:
    """Return requests with different texts, voices, layouts and sampling settings."""
    ways = (GREEDY, Sampling(), Sampling(top_p=0.8, temperature=1.1), Sampling(top_k=3, repetition_penalty=1.3))
    return [
        custom_voice(
            ("Hello world.", "a", "The old phone is slow and the young voice is warm.")[index % 3],
            voice=("serena", "ryan", "eric")[index % 3],
            layout=list(Layout)[index % 2],
            sampling=ways[index % 4],
            max_frames=5 + index,
            seed=index,
        )
        for index in range(count)
    ]


def assert_same_codes(on_npu: Engine, on_cpu: Engine, requests: list[SpeechRequest]) -> None:
    pairs = [speak_together(engine, *requests, apart=2) for engine in (on_npu, on_cpu)]
    for ours, theirs in zip(*pairs, strict=True):
        assert np.array_equal(ours.codes, theirs.codes)
        assert len(theirs.codes) > 2


@pytest.mark.usefixtures("limit_code2wav_graphs")
@pytest.mark.parametrize("eager", [True, False])
def test_batched_npu_codes_equal_cpu_codes(loaded: Loaded, ascend: StandIn, on_npu: LoadedOnNpu, eager: bool) -> None:
    """All sixteen codes of each frame are equal, and the AI CPU is not used."""
    device = NpuDevice(eager=eager)
    engine = engine_of(on_npu("tiny", "custom_voice"), slots=5, device=device, dtype="float32")
    # Graphs for 1, 2 and 6 rows, each with and without a sort.
    assert len(core_of(engine).runner.graphs.of(GraphKind.DECODE)) == (0 if eager else 6)
    assert bool(ascend.npu.graphs) != eager
    assert_same_codes(engine, engine_of(loaded("tiny", "custom_voice"), slots=5), varied(7))
    assert {mode for _, _, _, mode in ascend.calls} == {EXPLICIT_MASK_MODE, BOTTOM_RIGHT}
    assert set(ascend.npu.ai_cpu) == set()


@pytest.mark.usefixtures("limit_code2wav_graphs")
def test_npu_codes_of_another_checkpoint_shape_equal_cpu_codes(
    loaded: Loaded, npu: NpuDevice, on_npu: LoadedOnNpu
) -> None:
    requests = [custom_voice("a b c", voice=name, seed=3, sampling=Sampling()) for name in ("ada", "bob_2", "mei")]
    engine = engine_of(on_npu("odd", "custom_voice"), slots=3, device=npu, dtype="float32")
    assert_same_codes(engine, engine_of(loaded("odd", "custom_voice"), slots=3), requests)


@pytest.mark.usefixtures("limit_code2wav_graphs")
def test_npu_codes_of_every_mode_equal_cpu_codes(
    cloner: Checkpoint, designer: Checkpoint, npu: NpuDevice, on_npu: LoadedOnNpu
) -> None:
    for checkpoint, mode, request in (
        (cloner, "base", cloned()),
        (designer, "voice_design", voice_design(sampling=Sampling())),
    ):
        engine = engine_of(on_npu("brief", mode), slots=2, device=npu, dtype="float32")
        assert np.array_equal(speak(engine, request).codes, speak(engine_of(checkpoint, slots=2), request).codes)


@pytest.mark.usefixtures("limit_code2wav_graphs")
def test_npu_codes_of_streamed_text_equal_cpu_codes(
    speaker: Checkpoint, npu_speaker: Checkpoint, npu: NpuDevice
) -> None:
    engine = engine_of(npu_speaker, slots=2, device=npu, dtype="float32")
    assert np.array_equal(speak(engine, streamed()).codes, speak(engine_of(speaker, slots=2), streamed()).codes)


class InFloat64(CpuDevice):
    """CPU device that computes attention in float64, then rounds to bfloat16 like the NPU."""

    dtype = torch.bfloat16

    def prefill_attention(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        return super().prefill_attention(q.double(), k.double(), v.double(), seen).to(q.dtype)

    def decode_attention(self, q: Tensor, keys: Tensor, values: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        return super().decode_attention(q.double(), keys.double(), values.double(), rows, lengths).to(q.dtype)


@pytest.mark.usefixtures("limit_code2wav_graphs")
def test_half_precision_npu_codes_with_fused_attention_equal_cpu_codes(
    folder_of: FolderOf,
    ascend: StandIn,
    npu: NpuDevice,
    on_npu: LoadedOnNpu,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Packed weights are summed in another order than the library uses.
    monkeypatch.setattr("runtime.model.checkpoints.checkpoint.pack", lambda module: None)
    checkpoint = load_checkpoint(str(folder_of("brief", "custom_voice")), CPU, torch.bfloat16)
    engine = engine_of(on_npu("brief", "custom_voice", torch.bfloat16), slots=4, device=npu)
    on_cpu = engine_of(checkpoint, slots=4, device=InFloat64())
    for request in varied(4):
        assert np.array_equal(speak(engine, request).codes, speak(on_cpu, request).codes)
    assert {name for name, *_ in ascend.calls} == {"infer"}


@pytest.mark.logs_errors
def test_unsupported_checkpoint_is_refused_at_startup(npu: NpuDevice, on_npu: LoadedOnNpu) -> None:
    """The head width is not a multiple of 16.

    With float32, another operator is used, which supports this width.
    """
    odd = on_npu("odd", "custom_voice", torch.bfloat16)
    with pytest.raises(DeviceUnavailable, match="in steps of 16"):
        engine_of(odd, device=npu)
    runner = ModelRunner(odd, npu, torch.bfloat16, 2, 64, 16)
    with pytest.raises(DeviceUnavailable, match="in steps of 16"):
        runner.capture()


def test_startup_captures_every_code2wav_shape(folder_of: FolderOf, ascend: StandIn) -> None:
    settings = EngineSettings(device="npu", dtype="float32", max_slots=2)
    engine = Engine.open(Settings(models=(str(folder_of("brief", "custom_voice")),), engine=settings))
    streams = core_of(engine).code2wav_streams
    for stream, family in GRAPH_SHAPES.items():
        shapes = product(family.frames, family.up_to(2).batches)
        assert all(streams.graphs.graph_for(stream, *shape) is not None for shape in shapes)
    assert len(speak(engine, custom_voice(max_frames=30)).pcm) > 0
    assert streams.uncaptured == 0


# --- Tests of single frames.


SETTINGS = [
    NetworkSamplingParams(0.9, 50, 1.0, False),
    NetworkSamplingParams(1.0, 0, 0.8, False),
    NetworkSamplingParams(1.0, 0, 1.0, True),
]


def begin(runner: ModelRunner, serial: int, length: int) -> int:
    """Prefill a random prompt of `length` positions in a new slot, and return the slot."""
    embeds = torch.randn(length, runner.hidden_size, generator=torch.Generator().manual_seed(serial))
    embeds = embeds.to(runner.device.torch_device)
    level = SETTINGS[serial % 3]
    slot = runner.slot_cache.allocate(SlotInputs(RequestSamplingParams(level, level, 1.05), serial, [serial % 50, 3]))
    start, pending = 0, None
    while pending is None:
        start, pending = runner.prefill(slot, Prompt(embeds, [serial % 50, 3]), start)
    pending.result()
    return slot


def frames_of(runner: ModelRunner, slots: list[int], count: int) -> Codes:
    """Run `count` decode steps, and return the codes.

    Shapes: result [count, B, Q].
    """
    return np.stack([runner.step(np.array(slots)).result().codes for _ in range(count)])


def test_replayed_frame_is_bitwise_equal_to_the_frame_without_a_graph(npu_speaker: Checkpoint) -> None:
    """Five rows use a graph for six rows.

    The slots of the rows are not in order, and another slot is paused.
    """
    made, runners = [], []
    for holds in (True, False):
        runner = ModelRunner(npu_speaker, NpuDevice(eager=not holds), torch.float32, 6, 120, 64)
        runner.capture()
        slots = [begin(runner, serial, 5 + 7 * serial) for serial in range(6)]
        resting = [layer[slots[2]].clone() for layer in runner.slot_cache.keys]
        made.append(frames_of(runner, [slots[index] for index in (4, 0, 5, 1, 3)], 5))
        runners.append(runner)
        written = int(runner.slot_cache.host_position[slots[2]])
        for before, after in zip(resting, runner.slot_cache.keys, strict=True):
            assert torch.equal(before[:, :written], after[slots[2], :, :written])
    assert np.array_equal(*made)
    for slot in range(6):
        written = int(runners[0].slot_cache.host_position[slot])
        for ours, theirs in zip(runners[0].slot_cache.keys, runners[1].slot_cache.keys, strict=True):
            torch.testing.assert_close(ours[slot, :, :written], theirs[slot, :, :written])


@pytest.mark.parametrize("slots", [1, 5, 9])
def test_padding_rows_write_only_to_the_scratch_row(
    speaker: Checkpoint, npu_speaker: Checkpoint, npu: NpuDevice, slots: int
) -> None:
    """A padded batch may have more rows than there are slots.

    For example, 9 rows use a graph for 12 rows.
    """
    pairs = (npu_speaker, npu), (speaker, CpuDevice())
    runner, plain = (ModelRunner(checkpoint, device, torch.float32, slots, 64, 64) for checkpoint, device in pairs)
    runner.capture()
    assert max(rows for rows, *_ in runner.graphs.of(GraphKind.DECODE)) == len(runner._rows) >= slots
    taken = [begin(runner, serial, 6 + serial) for serial in range(slots)]
    assert [begin(plain, serial, 6 + serial) for serial in range(slots)] == taken
    assert np.array_equal(frames_of(runner, taken, 3), frames_of(plain, taken, 3))
    slot_cache = runner.slot_cache
    assert slot_cache.position[slots] == slot_cache.frame[slots] == 0
    assert (
        slot_cache.position[:slots].tolist()
        == plain.slot_cache.position[:slots].tolist()
        == slot_cache.host_position.tolist()
    )
    assert slot_cache.frame[:slots].tolist() == [4] * slots


def test_frame_reads_slots_only_up_to_the_longest_row(
    speaker: Checkpoint, npu_speaker: Checkpoint, npu: NpuDevice
) -> None:
    """A row that exceeds the span of a graph uses the next larger graph.

    The result must equal that on the CPU.
    """
    pairs = (npu_speaker, npu), (speaker, CpuDevice())
    runner, plain = (ModelRunner(checkpoint, device, torch.float32, 2, 600, 128) for checkpoint, device in pairs)
    runner.capture()
    assert list(runner.graphs.of(GraphKind.DECODE)) == list(product((1, 2), (512, 600), (PLAIN, SORTED)))
    replayed: list[tuple[int, ...]] = []
    for key, graph in runner.graphs.of(GraphKind.DECODE).items():
        graph.replay = counting(graph, key, replayed)  # type: ignore[method-assign]
    slots = [begin(runner, serial, 508 - 400 * serial) for serial in range(2)]
    assert [begin(plain, serial, 508 - 400 * serial) for serial in range(2)] == slots
    assert np.array_equal(frames_of(runner, slots, 7), frames_of(plain, slots, 7))
    assert replayed == [(2, 512, SORTED)] * 4 + [(2, 600, SORTED)] * 3
    assert np.array_equal(frames_of(runner, slots[1:], 1), frames_of(plain, slots[1:], 1))
    assert replayed[-1] == (1, 512, SORTED)


def counting(graph: Graph[Tensor], key: tuple[int, ...], into: list[tuple[int, ...]]) -> Callable[[], None]:
    replay = graph.replay
    return lambda: (into.append(key), replay())[1]


@pytest.mark.parametrize("broken", [{0}, {3}, set(range(2, 999))])
def test_failed_capture_is_logged_once_and_runs_without_a_graph(
    speaker: Checkpoint,
    npu_speaker: Checkpoint,
    npu: NpuDevice,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: set[int],
) -> None:
    capture, asked, of_sound = NpuDevice.capture, [], []

    def fails(device: NpuDevice, work: Callable[[], Tensor], stream: Stream) -> Graph[Tensor]:
        # Graphs of Code2Wav are captured after those of frames. The first and largest of them is on Stream.AUDIO, and
        # some of the others are on other streams.
        kind = of_sound if of_sound or stream is Stream.AUDIO else asked
        kind.append(stream)
        if of_sound or len(asked) - 1 in broken:
            raise RuntimeError("Cannot run aclop operators during NPU graph capture")
        return capture(device, work, stream)

    monkeypatch.setattr(NpuDevice, "capture", fails)
    with caplog.at_level(logging.WARNING):
        engine = engine_of(npu_speaker, slots=4, device=npu, dtype="float32")
    # There is one record for frames and one for Code2Wav.
    record, _ = [record for record in caplog.records if record.name == "runtime.engine.execution.graphs"]
    failed = len(broken & set(range(len(asked))))
    assert f"capture failed for {failed} of {len(asked)}" in record.getMessage()
    assert "Cannot run aclop operators" in record.getMessage()
    assert_same_codes(engine, engine_of(speaker, slots=4), varied(4))


def test_other_rows_continue_if_the_slot_of_one_row_is_full(npu_speaker: Checkpoint, npu: NpuDevice) -> None:
    made = []
    for length in (10, 64):
        runner = ModelRunner(npu_speaker, npu, torch.float32, 2, length, 16)
        runner.capture()
        slots = [begin(runner, 0, 9), begin(runner, 1, 3)]
        made.append(frames_of(runner, slots, 2))
    assert np.array_equal(made[0][0], made[1][0])
    assert np.array_equal(made[0][:, 1], made[1][:, 1])


def test_non_finite_row_affects_neither_other_rows_nor_later_requests(npu_speaker: Checkpoint, npu: NpuDevice) -> None:
    runner = ModelRunner(npu_speaker, npu, torch.float32, 2, 64, 64)
    runner.capture()
    expected = frames_of(runner, [begin(runner, 1, 9)], 3)
    runner.slot_cache.release(0)

    runner = ModelRunner(npu_speaker, npu, torch.float32, 2, 64, 64)
    runner.capture()
    well, ill = begin(runner, 1, 9), begin(runner, 2, 20)
    for layer in (*runner.slot_cache.keys, *runner.slot_cache.values):
        layer[ill] = torch.nan
    codes, finite = [], []
    for _ in range(3):
        result = runner.step(np.array([ill, well])).result()
        codes.append(result.codes[1:])
        finite.append(result.finite.tolist())
    assert finite == [[False, True]] * 3
    assert np.array_equal(np.stack(codes), expected)
    runner.slot_cache.release(well)
    runner.slot_cache.release(ill)
    assert begin(runner, 4, 5) == well
    assert (again := begin(runner, 1, 9)) == ill
    assert np.array_equal(frames_of(runner, [again], 3), expected)
