"""Child process that reads a voice file of the official Qwen3-TTS demo (`.pt`).

stdin is the file. stdout is one JSON line, followed by the voice's tensors as safetensors.

The file is a pickle. torch reads only tensors and plain values from it (`weights_only`). The process has resource
limits, which protect the server against a fault in torch's reader.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import mmap
import sys
import time
from pathlib import Path

from runtime.shared.system import confine

# Address space in bytes that the process may use in addition to that of its imports.
MEMORY_BYTES = 512 * 2**20
CPU_S = 5  # Seconds of CPU time that the process may use in addition to that of its imports.
NOT_OF_THE_DEMO = "it is no voice of the official Qwen3-TTS demo"


def main() -> None:
    """Read a voice file from stdin, and write the voice or an error to stdout."""
    import torch
    from safetensors.torch import save

    used = 0
    # Systems without /proc do not support a limit of the address space, so `used` is not needed there.
    with contextlib.suppress(OSError):
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * mmap.PAGESIZE
    confine(used + MEMORY_BYTES, math.ceil(time.process_time()) + CPU_S)
    try:
        loaded = torch.load(io.BytesIO(sys.stdin.buffer.read()), map_location="cpu", weights_only=True)
        (item,) = loaded["items"]
        x_vector, codes, text = item["ref_spk_embedding"], item["ref_code"], item["ref_text"]
        tensors = {"x_vector": x_vector.detach().float().reshape(-1).contiguous()}
        if codes is not None and not item["x_vector_only_mode"]:
            tensors["codes"] = codes.detach().long().contiguous()
        head = {"text": str(text) if "codes" in tensors else None}
        data = save(tensors)
    except Exception:  # A file from an untrusted source can cause any exception in torch.
        head, data = {"why": NOT_OF_THE_DEMO}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + data)


if __name__ == "__main__":
    main()
