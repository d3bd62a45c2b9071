"""Random checkpoint for all three modes, for tests that do not need intelligible speech."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.checkpoints import MODES, TINY, model_config, write_checkpoint


def write_stand_in(folder: Path) -> None:
    """Write a Base checkpoint that also has CustomVoice's speakers and all three modes.

    The configuration keys for this are in docs/checkpoints.md.
    """
    write_checkpoint(folder, TINY, "base", 1)
    speakers = model_config(TINY, "custom_voice")["talker_config"]
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key in ("spk_id", "spk_is_dialect", "codec_language_id"):
        config["talker_config"][key] = speakers[key]
    config |= {"voicewright_modes": list(MODES), "voicewright_speaks": False}
    path.write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    write_stand_in(Path(sys.argv[1]))
