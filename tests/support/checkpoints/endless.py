"""Change of random weights that prevents EOS from being sampled.

Every utterance then has ``max_frames`` frames. The bias of the text projection writes a constant to coordinate 0 of the
talker's input, and no other weight changes this coordinate. Therefore, coordinate 0 of the last hidden state is always
positive. The EOS row of the head has one large negative weight, at coordinate 0. So the logit of EOS is far below all
other logits, for all sampling parameters.
"""

from __future__ import annotations

from tests.support.checkpoints.draw import Tensors

# Value of coordinate 0 in every input. The other coordinates are at most a few tens, so coordinate 0 keeps its
# influence after the norm.
LEVEL = 8.0
# Weight of coordinate 0 for the logit of EOS. This logit is hundreds lower than all others, which differ by less than
# ten.
WEIGHT = -1000.0

SILENT_ROWS = (".o_proj.weight", ".down_proj.weight", "speaker_encoder.fc.weight", "speaker_encoder.fc.bias")


def remove_eos(tensors: Tensors, eos: int) -> Tensors:
    """Yield the tensors of model.safetensors, changed so that EOS is never sampled.

    `eos` is the token ID of EOS.
    """
    for key, tensor in tensors:
        if key == "talker.text_projection.linear_fc2.weight":
            tensor[0] = 0.0
        elif key == "talker.text_projection.linear_fc2.bias":
            tensor[0] = LEVEL
        elif key == "talker.model.norm.weight":
            tensor[0] = 1.0
        elif key == "talker.codec_head.weight":
            tensor[:, 0] = 0.0
            tensor[eos] = 0.0
            tensor[eos, 0] = WEIGHT
        elif ".codec_embedding." in key:
            tensor[:, 0] = 0.0
        elif key.startswith(("talker.model.layers.", "speaker_encoder.fc.")) and key.endswith(SILENT_ROWS):
            tensor[0] = 0.0
        yield key, tensor
