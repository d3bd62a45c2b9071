"""Second moments of the inputs of linear layers, for int4 calibration (GPTQ)."""

from __future__ import annotations

import tomllib
from functools import partial

import torch
from torch import Tensor, nn

from runtime.engine.engine import Engine
from runtime.model.checkpoints.quantize import Moments
from runtime.model.checkpoints.quantized_files import quantized_linears
from runtime.request import Broken, Finished, Mode, ModelCard, Reference, Refused, SpeechEvent, SpeechRequest
from runtime.settings import DEMO_CHECKPOINT, EngineSettings, Limits, Settings
from runtime.shared.audio.reference import load_reference
from runtime.shipped import shipped

UTTERANCES = 16
MAX_UTTERANCE_FRAMES = 60
TEXTS_FILE = shipped("studio", "presets") / "designs.toml"  # Voice descriptions and sample texts in all languages.
RECORDING = DEMO_CHECKPOINT / "samples" / "clone.wav"


def measure_inputs(reference: str, *, requests: int = UTTERANCES, frames: int = MAX_UTTERANCE_FRAMES) -> Moments:
    """Measure the second moments of the inputs of a checkpoint's linear layers.

    The checkpoint speaks some texts in bfloat16 on a CPU, where the layers run in Python and hooks can read the inputs.

    Args:
        reference: Local folder, or Hub id.
        requests: Number of texts.
        frames: Maximum number of frames per text.

    Returns:
        Moments [K, K] float32 by the name of the layer in the talker.

    Raises:
        SetUpError: The checkpoint cannot be loaded.
        SpeechError: A request failed.
    """
    engine_settings = EngineSettings(
        device="cpu", dtype="bfloat16", quantize="off", max_slots=requests, max_model_len=1024, guard=False
    )
    engine = Engine.open(Settings(models=(reference,), engine=engine_settings))
    (core,), moments = engine.registry.cores, Moments()
    for name, linear in quantized_linears(core.checkpoint.talker):
        moments[name] = torch.zeros(linear.in_features, linear.in_features)
        linear.register_forward_pre_hook(partial(_add_outer_products, moments[name]))
    events: list[SpeechEvent] = []
    requested = _requests(engine.cards[0], requests, frames)
    for request in requested:
        engine.submit(request, events.append)
    while sum(isinstance(event, Finished | Broken | Refused) for event in events) < len(requested):
        engine.tick()
    for event in events:
        if isinstance(event, Broken | Refused):
            raise event.error
    return moments


def _requests(card: ModelCard, count: int, frames: int) -> list[SpeechRequest]:
    """Return requests in the languages of a checkpoint and in all its modes."""
    texts = tomllib.loads(TEXTS_FILE.read_text("utf-8"))["design"]
    texts = [text for text in texts if text["language"] in card.languages] or texts
    samples = load_reference(RECORDING, Limits())
    return [
        SpeechRequest(
            text=text["sample"],
            mode=(mode := card.modes[number % len(card.modes)]),
            language=text["language"] if text["language"] in card.languages else "auto",
            voice=card.speakers[number % len(card.speakers)] if mode is Mode.CUSTOM_VOICE else None,
            instruct=text["text"] if mode is Mode.VOICE_DESIGN else None,
            reference=Reference(samples=samples, x_vector_only=True) if mode is Mode.BASE else None,
            seed=number,
            max_frames=frames,
        )
        for number, text in enumerate(texts[:: max(1, len(texts) // count)][:count])
    ]


def _add_outer_products(total: Tensor, layer: nn.Module, inputs: tuple[Tensor]) -> None:
    """Add the outer products of a layer's inputs.

    Shapes: total [K, K]; inputs [..., K].
    """
    rows = inputs[0].reshape(-1, len(total)).float()
    total.addmm_(rows.t(), rows)
