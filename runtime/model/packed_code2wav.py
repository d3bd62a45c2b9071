"""Code2Wav in Triton kernels, which decode all open streams as one batch.

The reference implementation is runtime/model/code2wav.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.device.kernels.code2wav.convolution import Activation, ConvolutionOutput, convolve
from runtime.device.kernels.code2wav.pointwise import look_up, normed_depthwise, pcm
from runtime.device.kernels.code2wav.residual_unit import PackedUnit, residual_unit
from runtime.device.kernels.code2wav.snake import Snake
from runtime.device.kernels.code2wav.streams import PastInputs
from runtime.device.kernels.code2wav.window import attend_window, ring_frames_for
from runtime.model.code2wav import Code2Wav, StreamState
from runtime.model.packing import PackedBlock, pack

MIN_CALL_FRAMES = 16  # Smallest value that `max_call_frames` may have.
ALIGNMENT_ELEMENTS = 64  # Number of elements to which the state memory of each convolution is aligned.


class PackedCode2Wav:
    """Implementation of `Code2WavNetwork` with Triton kernels."""

    def __init__(self, code2wav: Code2Wav, slots: int, dtype: torch.dtype) -> None:
        config = code2wav.config
        self.device = code2wav.pre_conv.conv.weight.device
        self.eps = config.rms_norm_eps
        self.window = config.sliding_window
        self.tail_frames = code2wav.tail_frames
        ring = ring_frames_for(config.sliding_window, MIN_CALL_FRAMES)
        self.max_call_frames = ring - config.sliding_window + 1
        sizes = [module.left * module.inputs for module in code2wav.looking_back]
        self.reference_slot, slots = slots, slots + 1
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // ALIGNMENT_ELEMENTS) * ALIGNMENT_ELEMENTS)
        with torch.inference_mode():
            self.memory = torch.zeros((2, slots, starts[-1]), device=self.device, dtype=dtype)
            cache = (config.num_hidden_layers, 2, config.num_key_value_heads, ring, config.head_dim)
            self.rings = torch.zeros((slots, *cache), device=self.device, dtype=dtype)
            pasts = [
                PastInputs(self.memory[..., start : start + size], module.left)
                for module, start, size in zip(code2wav.looking_back, starts, sizes, strict=False)
            ]
            self.network = pack(code2wav, dtype, pasts)

    # --- Methods of the protocol `Code2WavNetwork`.

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        return self.vocode(self.latents(rows, codes), rows)

    def reset(self, slot: int) -> None:
        self.memory[:, slot] = 0
        self.rings[slot] = 0

    @property
    def stepped(self) -> PackedCode2Wav:
        return self

    def state_after(self, codes: Tensor) -> tuple[StreamState, int]:
        codes = codes.to(self.device, torch.int32).unsqueeze(0)
        early = max(0, codes.shape[1] - self.tail_frames)
        ends = [*range(self.max_call_frames, early, self.max_call_frames), early, codes.shape[1]]
        begin = parity = 0
        self.reset(self.reference_slot)
        for end in ends:
            if end > begin:
                rows = torch.tensor([[self.reference_slot, parity, begin]], device=self.device, dtype=torch.int32)
                step = self.decode if end == codes.shape[1] else self.advance_state
                step(rows, codes[:, begin:end].contiguous())
                begin, parity = end, 1 - parity
        return self.state_of(self.reference_slot), parity

    def advance_state(self, rows: Tensor, codes: Tensor) -> Tensor:
        # For the convolutions, only the last reference frames are needed. They are processed by `decode`.
        return self.latents(rows, codes)

    def state_of(self, slot: int) -> StreamState:
        return StreamState([self.memory[:, slot].clone()], [self.rings[slot].clone()], [], torch.empty(0))

    def write_state(self, slot: int, state: StreamState) -> None:
        self.memory[:, slot], self.rings[slot] = state.convs[0], state.keys[0]

    # --- Methods that compute the parts of the network, in the order of the data flow.

    def latents(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Compute the input of the second upsampling stage for the next n frames of every stream.

        Shapes: codes [B, n, Q]; result [B, n * ratio, latent], where ratio is the factor of the first upsampling.
        """
        network, eps = self.network, self.eps
        output = convolve(network.entry, look_up(codes, network.tables), rows, network.entry_past, squares=True)
        for index, layer in enumerate(network.layers):
            qkv = convolve(layer.qkv, output.values, rows, norm=(output.squares, eps)).values
            attended = attend_window(qkv, self.rings[:, index], rows, network.frequencies, self.window)
            output = convolve(layer.out, attended, rows, residual=output.values, squares=True)
            inner = convolve(
                layer.gate_up, output.values, rows, norm=(output.squares, eps), after=Activation.SWIGLU
            ).values
            output = convolve(layer.down, inner, rows, residual=output.values, squares=True)
        latent = network.stages[0].widen.inputs
        return convolve(network.exit, output.values, rows, norm=(output.squares, eps)).values.view(
            len(codes), -1, latent
        )

    def vocode(self, x: Tensor, rows: Tensor) -> Tensor:
        """Decode the result of `latents` to 16-bit samples, followed by flags.

        The result is described in `Code2WavNetwork.decode`.

        Shapes: x [B, n * ratio, latent]; result [B, n * samples_per_frame + flags].
        """
        network = self.network
        for stage in network.stages:
            if stage.upsample is not None:
                x = convolve(stage.upsample, x, rows).values.view(len(x), -1, stage.upsample.inputs)
            y = normed_depthwise(x, stage.depthwise, stage.depthwise_bias, rows, stage.past, stage.eps)
            inner = convolve(stage.widen, y, rows, after=Activation.GELU).values
            x = convolve(stage.narrow, inner, rows, residual=x).values
        output = convolve(network.first, x, rows, network.first_past, next_snake=network.snakes[0], plain=False)
        for block, after in zip(network.blocks, network.snakes[1:], strict=True):
            output = self._block(block, output.after_snake, after, rows)
        return pcm(output.after_snake, network.last, network.last_bias, rows, network.last_past)

    def _block(self, block: PackedBlock, x: Tensor, after: Snake, rows: Tensor) -> ConvolutionOutput:
        """Run the upsampling and the residual units of one block.

        Shapes: x [B, T, C], already activated; results [B, T * rate, block.channels].
        """
        output = convolve(block.upsample, x, rows, block.past, next_snake=block.head).view(len(x), -1, block.channels)
        for unit, past, then in zip(block.units, block.pasts, (*block.heads, after), strict=True):
            # True if the unit must also return values without SnakeBeta. After the last unit, these values are not
            # used.
            plain = then is not after
            if isinstance(unit, PackedUnit):
                output = residual_unit(unit, output.values, output.after_snake, rows, past, then, plain)
            else:
                inner = convolve(
                    unit.first, output.after_snake, rows, past, next_snake=unit.between, plain=False
                ).after_snake
                output = convolve(unit.second, inner, rows, residual=output.values, next_snake=then, plain=plain)
        return output
