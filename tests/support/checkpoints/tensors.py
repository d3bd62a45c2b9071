"""Generator of all tensors of a checkpoint, with the published key names."""

from __future__ import annotations

from tests.support.checkpoints.draw import Draw, Tensors
from tests.support.checkpoints.endless import remove_eos
from tests.support.checkpoints.spec import CheckpointSpec, Code2WavSpec, EncoderSpec, SpeakerEncoderSpec, Stack
from tests.support.checkpoints.tokenizer import special_ids

MEL_BINS = 128  # Number of mel bins in the reference implementation. The config does not contain it.


def model_tensors(draw: Draw, spec: CheckpointSpec, mode: str) -> Tensors:
    """Yield the tensors of model.safetensors.

    They belong to the talker, the code predictor and, in Base, the speaker encoder.
    """
    tensors = _model(draw, spec, mode)
    return remove_eos(tensors, spec.codec_ids["codec_eos_token_id"]) if spec.is_endless else tensors


def _model(draw: Draw, spec: CheckpointSpec, mode: str) -> Tensors:
    yield from _talker(draw, spec)
    yield from _predictor(draw, spec)
    if mode == "base":
        yield from _speaker_encoder(draw, spec.speaker_encoder, spec.talker.hidden)


def speech_tokenizer_tensors(draw: Draw, spec: CheckpointSpec) -> Tensors:
    """Yield the tensors of speech_tokenizer/model.safetensors.

    They belong to the Mimi encoder and the Code2Wav decoder.
    """
    yield from _mimi(draw, spec.encoder, spec.codebook_size)
    yield from _code2wav(draw, spec.code2wav, spec.codebook_size, spec.code_groups)


def text_rows(spec: CheckpointSpec) -> int:
    """Return the number of rows of the talker's text embedding."""
    return spec.text_rows or (max(special_ids(spec.tokens, spec.special_tokens).values()) // 64 + 1) * 64


def _talker(draw: Draw, spec: CheckpointSpec) -> Tensors:
    hidden, text = spec.talker.hidden, spec.text_hidden
    for key, rows, width, std in (
        ("talker.model.text_embedding.weight", text_rows(spec), text, 1.0),
        ("talker.model.codec_embedding.weight", spec.codec_vocab, hidden, 0.7),
    ):
        yield key, draw.spread(key, (rows, width), std)
    yield from draw.linear("talker.text_projection.linear_fc1", text, text, 1.5, bias=True)
    yield from draw.linear("talker.text_projection.linear_fc2", hidden, text, 1.5, bias=True)
    yield from _layers(draw, "talker.model", spec.talker)
    head = draw.spread("talker.codec_head.weight", (spec.codec_vocab, hidden), spec.logit_scale / hidden**0.5)
    head[spec.codec_ids["codec_eos_token_id"]] *= spec.eos_scale
    yield "talker.codec_head.weight", head


def _predictor(draw: Draw, spec: CheckpointSpec) -> Tensors:
    name, hidden = "talker.code_predictor", spec.predictor.hidden
    if hidden != spec.talker.hidden:
        yield from draw.linear(f"{name}.small_to_mtp_projection", hidden, spec.talker.hidden, 1.2, bias=True)
    yield from _layers(draw, f"{name}.model", spec.predictor)
    for group in range(spec.code_groups - 1):
        key = f"{name}.model.codec_embedding.{group}.weight"
        yield key, draw.spread(key, (spec.codebook_size, spec.talker.hidden), 0.5)
        yield from draw.linear(f"{name}.lm_head.{group}", spec.codebook_size, hidden, spec.logit_scale)


def _layers(draw: Draw, name: str, stack: Stack) -> Tensors:
    query, key_value = stack.heads * stack.head_dim, stack.kv_heads * stack.head_dim
    for index in range(stack.layers):
        layer = f"{name}.layers.{index}"
        yield from draw.linear(f"{layer}.self_attn.q_proj", query, stack.hidden)
        yield from draw.linear(f"{layer}.self_attn.k_proj", key_value, stack.hidden)
        yield from draw.linear(f"{layer}.self_attn.v_proj", key_value, stack.hidden, 1.5)
        yield from draw.linear(f"{layer}.self_attn.o_proj", stack.hidden, query, 1.5)
        # Weights above one sharpen the attention. With smaller weights, a random layer only averages.
        for norm in ("q_norm", "k_norm"):
            key = f"{layer}.self_attn.{norm}.weight"
            yield key, draw.spread(key, (stack.head_dim,), 0.1, 1.4)
        yield from _swiglu(draw, layer, stack, gain=2.0)
        yield from draw.norm(f"{layer}.input_layernorm", stack.hidden)
        yield from draw.norm(f"{layer}.post_attention_layernorm", stack.hidden)
    yield from draw.norm(f"{name}.norm", stack.hidden)


def _swiglu(draw: Draw, layer: str, stack: Stack, gain: float) -> Tensors:
    yield from draw.linear(f"{layer}.mlp.gate_proj", stack.intermediate, stack.hidden)
    yield from draw.linear(f"{layer}.mlp.up_proj", stack.intermediate, stack.hidden)
    yield from draw.linear(f"{layer}.mlp.down_proj", stack.hidden, stack.intermediate, gain)


def _speaker_encoder(draw: Draw, spec: SpeakerEncoderSpec, width: int) -> Tensors:
    name, channels = "speaker_encoder", spec.channels
    for key, tensor in draw.conv(f"{name}.blocks.0.conv", channels[0], MEL_BINS, spec.kernels[0]):
        # Log-mels are far below zero, so their mean would dominate. This kernel ignores the mean, and different voices
        # get different x-vectors.
        yield key, tensor - tensor[:, list(reversed(range(MEL_BINS)))] if tensor.ndim == 3 else tensor
    for index in range(1, len(channels) - 1):
        block, wide = f"{name}.blocks.{index}", channels[index]
        part = wide // spec.res2net_scale
        yield from draw.conv(f"{block}.tdnn1.conv", wide, channels[index - 1], 1, 1.4)
        for branch in range(spec.res2net_scale - 1):
            key = f"{block}.res2net_block.blocks.{branch}.conv"
            yield from draw.conv(key, part, part, spec.kernels[index], 1.4)
        yield from draw.conv(f"{block}.tdnn2.conv", wide, wide, 1, 1.4)
        yield from draw.conv(f"{block}.se_block.conv1", spec.squeeze, wide, 1)
        yield from draw.conv(f"{block}.se_block.conv2", wide, spec.squeeze, 1)
    last = channels[-1]
    yield from draw.conv(f"{name}.mfa.conv", last, last, spec.kernels[-1], 1.4)
    yield from draw.conv(f"{name}.asp.tdnn.conv", spec.attention, 3 * last, 1)
    yield from draw.conv(f"{name}.asp.conv", last, spec.attention, 1, 2.0)
    yield from draw.conv(f"{name}.fc", width, 2 * last, 1, 0.4)


def _mimi(draw: Draw, spec: EncoderSpec, rows: int) -> Tensors:
    name, width = "encoder.encoder.layers", spec.filters
    yield from draw.conv(f"{name}.0.conv", width, 1, 7, 3.0)
    position = 1
    for ratio in reversed(spec.ratios):
        yield from draw.conv(f"{name}.{position}.block.1.conv", width // 2, width, 3)
        yield from draw.conv(f"{name}.{position}.block.3.conv", width, width // 2, 1)
        yield from draw.conv(f"{name}.{position + 2}.conv", 2 * width, width, 2 * ratio, 1.2)
        width, position = 2 * width, position + 3
    yield from draw.conv(f"{name}.{position + 1}.conv", spec.hidden, width, 3, 1.2)
    for index in range(spec.layers):
        yield from _mimi_layer(draw, f"encoder.encoder_transformer.layers.{index}", spec)
    yield from draw.conv("encoder.downsample.conv", spec.hidden, spec.hidden, 4, bias=False)
    for branch, layers in (("semantic", 1), ("acoustic", spec.quantizers - 1)):
        quantizer = f"encoder.quantizer.{branch}_residual_vector_quantizer"
        yield from draw.conv(f"{quantizer}.input_proj", spec.codebook_dim, spec.hidden, 1, bias=False)
        yield from draw.conv(f"{quantizer}.output_proj", spec.hidden, spec.codebook_dim, 1, bias=False)
        for index in range(layers):
            key = f"{quantizer}.layers.{index}.codebook"
            yield f"{key}.initialized", draw.spread(f"{key}.initialized", (1,), 0.0, 1.0)
            # The vectors of each codebook are smaller than those of the previous one, like the residual. Otherwise,
            # late codebooks would have no effect.
            yield from draw.codebook(key, "embed_sum", rows, spec.codebook_dim, 0.9**index)


def _mimi_layer(draw: Draw, layer: str, spec: EncoderSpec) -> Tensors:
    for projection in ("q_proj", "k_proj", "v_proj", "o_proj"):
        yield from draw.linear(f"{layer}.self_attn.{projection}", spec.hidden, spec.hidden, 1.5)
    yield from draw.linear(f"{layer}.mlp.fc1", spec.intermediate, spec.hidden)
    yield from draw.linear(f"{layer}.mlp.fc2", spec.hidden, spec.intermediate, 1.5)
    yield from draw.norm(f"{layer}.input_layernorm", spec.hidden, bias=True)
    yield from draw.norm(f"{layer}.post_attention_layernorm", spec.hidden, bias=True)
    yield from _layer_scales(draw, layer, spec.hidden)


def _layer_scales(draw: Draw, layer: str, width: int) -> Tensors:
    for scale in ("self_attn_layer_scale", "mlp_layer_scale"):
        key = f"{layer}.{scale}.scale"
        yield key, draw.spread(key, (width,), 0.1, 0.6)


def _code2wav(draw: Draw, spec: Code2WavSpec, rows: int, groups: int) -> Tensors:
    row = spec.codebook_dim // 2
    for branch, layers in (("rvq_first", 1), ("rvq_rest", groups - 1)):
        quantizer = f"decoder.quantizer.{branch}"
        yield from draw.conv(f"{quantizer}.input_proj", row, spec.codebook_dim, 1, bias=False)
        gain = layers**-0.5
        yield from draw.conv(f"{quantizer}.output_proj", spec.codebook_dim, row, 1, gain, bias=False)
        for index in range(layers):
            key = f"{quantizer}.vq.layers.{index}._codebook"
            yield from draw.codebook(key, "embedding_sum", rows, row, 1.0)
    yield from draw.conv("decoder.pre_conv.conv", spec.latent, spec.codebook_dim, 3)
    yield from _code2wav_transformer(draw, spec)
    for index, ratio in enumerate(spec.upsampling_ratios):
        yield from _upsample(draw, f"decoder.upsample.{index}", spec.latent, ratio)
    yield from _vocoder(draw, spec)


def _code2wav_transformer(draw: Draw, spec: Code2WavSpec) -> Tensors:
    name, stack = "decoder.pre_transformer", spec.transformer
    yield from draw.linear(f"{name}.input_proj", stack.hidden, spec.latent, bias=True)
    for index in range(stack.layers):
        layer = f"{name}.layers.{index}"
        query, key_value = stack.heads * stack.head_dim, stack.kv_heads * stack.head_dim
        yield from draw.linear(f"{layer}.self_attn.q_proj", query, stack.hidden, 1.5)
        yield from draw.linear(f"{layer}.self_attn.k_proj", key_value, stack.hidden, 1.5)
        yield from draw.linear(f"{layer}.self_attn.v_proj", key_value, stack.hidden, 1.5)
        yield from draw.linear(f"{layer}.self_attn.o_proj", stack.hidden, query, 1.5)
        yield from _swiglu(draw, layer, stack, gain=1.5)
        yield from draw.norm(f"{layer}.input_layernorm", stack.hidden)
        yield from draw.norm(f"{layer}.post_attention_layernorm", stack.hidden)
        yield from _layer_scales(draw, layer, stack.hidden)
    yield from draw.norm(f"{name}.norm", stack.hidden)
    yield from draw.linear(f"{name}.output_proj", spec.latent, stack.hidden, bias=True)


def _upsample(draw: Draw, name: str, width: int, ratio: int) -> Tensors:
    yield from draw.transposed(f"{name}.0.conv", width, width, ratio, ratio)
    yield f"{name}.1.gamma", draw.spread(f"{name}.1.gamma", (width,), 0.1, 0.5)
    yield from draw.conv(f"{name}.1.dwconv.conv", width, 1, 7)
    yield from draw.norm(f"{name}.1.norm", width, bias=True)
    yield from draw.linear(f"{name}.1.pwconv1", 4 * width, width, bias=True)
    yield from draw.linear(f"{name}.1.pwconv2", width, 4 * width, 1.5, bias=True)


def _vocoder(draw: Draw, spec: Code2WavSpec) -> Tensors:
    width, blocks = spec.decoder_dim, len(spec.upsample_rates)
    yield from draw.conv("decoder.decoder.0.conv", width, spec.latent, 7, 0.7)
    for index, rate in enumerate(spec.upsample_rates, 1):
        block = f"decoder.decoder.{index}.block"
        yield from _snake(draw, f"{block}.0", width)
        yield from draw.transposed(f"{block}.1.conv", width, width // 2, 2 * rate, rate)
        width //= 2
        for unit in (2, 3, 4):
            yield from _snake(draw, f"{block}.{unit}.act1", width)
            yield from draw.conv(f"{block}.{unit}.conv1.conv", width, width, 7, 0.5)
            yield from _snake(draw, f"{block}.{unit}.act2", width)
            yield from draw.conv(f"{block}.{unit}.conv2.conv", width, width, 1, 0.5)
    yield from _snake(draw, f"decoder.decoder.{blocks + 1}", width)
    yield from draw.conv(f"decoder.decoder.{blocks + 2}.conv", 1, width, 7, 0.1)


def _snake(draw: Draw, name: str, width: int) -> Tensors:
    for parameter in ("alpha", "beta"):
        yield f"{name}.{parameter}", draw.spread(f"{name}.{parameter}", (width,), 0.3)
