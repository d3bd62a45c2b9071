"""The runtime: Qwen3-TTS as a process that apps and the studio talk to."""

import os

# torch's CPU threads wait for each other by spinning unless told otherwise, and must be told before torch is imported.
# On a machine that also runs a browser, spinning made frames 40 times slower (2 cores, two processes, Nov 2026).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
