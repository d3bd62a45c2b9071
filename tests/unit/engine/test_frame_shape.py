"""The shape of a frame says what it reads, and is the published one."""

from __future__ import annotations

import pytest
import torch

from runtime.device.quantized import Quantization
from runtime.engine.frame_shape import FrameShape, layer_bytes, layer_size
from runtime.engine.memory import _bytes_of
from runtime.engine.offers import shape_of
from runtime.model.code2wav import Code2Wav
from runtime.model.config import DecoderConfig
from runtime.model.layers import DecoderStack
from runtime.model.products import Linear, narrowed_names
from runtime.model.weights import on_meta
from runtime.published import PUBLISHED, SOUND_NARROWED
from tests.support.checkpoints.published import PUBLISHED as SPECS
from tests.unit.model.published import speech_tokenizer_config

FLOAT16, INT8, INT4 = Quantization
SMALL = DecoderConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_code_groups=4, vocab_size=64)


@pytest.mark.parametrize("kind", [None, FLOAT16, INT8, INT4])
def test_a_layer_is_as_large_as_it_is_held(kind: Quantization | None) -> None:
    """Of four bits the probe took half as many layers as no cache holds, and told too fast a pace."""
    config = DecoderConfig(
        hidden_size=1024, intermediate_size=3072, num_hidden_layers=1, num_code_groups=4, vocab_size=64
    )
    with on_meta():
        stack = DecoderStack(config)
    told = layer_bytes(config, torch.bfloat16, kind)
    assert told == pytest.approx(_bytes_of(stack, torch.bfloat16.itemsize, kind), rel=0.02)


def test_the_shapes_of_the_probe_are_the_published_ones() -> None:
    for checkpoint in PUBLISHED:
        shape, spec = shape_of(checkpoint), SPECS[checkpoint.size]
        for config, stack in ((shape.talker, spec.talker), (shape.predictor, spec.predictor)):
            assert (config.hidden_size, config.intermediate_size) == (stack.hidden, stack.intermediate)
            assert config.num_hidden_layers == stack.layers
            heads = (config.num_attention_heads, config.num_key_value_heads, config.head_dim)
            assert heads == (stack.heads, stack.kv_heads, stack.head_dim)
        assert shape.predictor.num_code_groups == spec.code_groups


def test_the_numbers_that_a_frame_reads_are_those_of_its_products() -> None:
    with on_meta():
        stack = DecoderStack(SMALL)
    products = [module for module in stack.modules() if isinstance(module, Linear)]
    assert SMALL.num_hidden_layers * layer_size(SMALL) == sum(module.weight.numel() for module in products)
    reads = FrameShape(SMALL, SMALL).reads
    assert reads == 4 * SMALL.num_hidden_layers * layer_size(SMALL) + 4 * SMALL.vocab_size * SMALL.hidden_size


def test_what_is_multiplied_in_fewer_bits_of_published_sound_is_counted_where_it_is() -> None:
    with on_meta():
        code2wav = Code2Wav(speech_tokenizer_config().code2wav)
    for word, numbers in SOUND_NARROWED.items():
        names = narrowed_names(code2wav, getattr(torch, word)) if word != "float32" else []
        assert sum(code2wav.get_parameter(f"{name}.weight").numel() for name in names) == numbers
