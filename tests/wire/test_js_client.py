"""The JavaScript client under Node against the real server; tests/browser/test_ws_client.py has it in Chromium."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support import node
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import same_sound, spoken

VOICE = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
SCRIPT = """
import { SpeechSocket } from 'voicewright';
const [url, config] = [process.argv[2], JSON.parse(process.argv[3])];
const socket = new SpeechSocket(url);
const spoken = (text, more, work) => new Promise((resolve) => {
  const chunks = [];
  const speech = socket.speak({ ...config, ...more }, text, {
    onAudio: (pcm) => chunks.push(Buffer.from(pcm.slice().buffer)),
    onDone: (done) => resolve({ pcm: Buffer.concat(chunks).toString('base64'), samples: done.total_samples }),
    onError: (error) => resolve({ code: error.code, param: error.param }),
  });
  work?.(speech);
});
const write = (speech) => { speech.write('Good '); speech.write('morning.'); speech.finish(); };
const heard = await Promise.all([
  spoken('Good morning.'),
  spoken(null, { split_granularity: 'none' }, write),
  spoken('Hello.', { voice: 'nobody' }),
]);
socket.close();
console.log(JSON.stringify(heard));
"""


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "voicewright").symlink_to(node.CLIENT)
    (folder / "speak.mjs").write_text(SCRIPT)
    command = [*node.command(), "speak.mjs", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    heard: list[dict[str, Any]] = json.loads(ended.stdout)
    return heard


def test_node_hears_what_every_client_hears(server: RunningServer, tmp_path: Path) -> None:
    alone = asyncio.run(spoken(server.socket, "Good morning.", **VOICE)).pcm
    whole, live, refused = run(tmp_path, server.socket, json.dumps(VOICE))
    assert refused == {"code": "unknown_voice", "param": "voice"}
    for take in (whole, live):
        pcm = base64.b64decode(take["pcm"])
        assert take["samples"] == len(pcm) // 2
        assert same_sound(pcm, alone)
