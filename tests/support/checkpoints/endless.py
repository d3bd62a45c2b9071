"""Weights that never draw the end token: every utterance has ``max_frames`` frames.

Every position of the talker's input includes a projected text embedding. The bias of the text projection puts the same
number into coordinate 0 of it; nothing else writes there: not the projection's matrix, not the embeddings of codes, not
the layers, not the speaker encoder. So coordinate 0 of the last hidden state is that number over the root mean square
of the state, always positive; the row of EOS in the head looks at it alone, and with a large negative weight. Its logit
is far below all others whatever the sampling is, greedy too.
"""

from __future__ import annotations

from tests.support.checkpoints.draw import Tensors

LEVEL = 8.0  # Coordinate 0 of every input; the other coordinates stay below a few tens, so it survives the norm.
WEIGHT = (
    -1000.0
)  # The weight of EOS on coordinate 0: the logit of EOS is hundreds below the others, which differ by single digits.

SILENT_ROWS = (".o_proj.weight", ".down_proj.weight", "speaker_encoder.fc.weight", "speaker_encoder.fc.bias")


def without_end(tensors: Tensors, eos: int) -> Tensors:
    """Change tensors of model.safetensors, as they pass, so that the code ``eos`` never comes."""
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
