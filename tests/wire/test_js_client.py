"""Tests for the JavaScript client in Node.

tests/browser/test_ws_client.py tests the client in Chromium.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import node
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import same_sound, speak_text
from voicewright import wav

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


VOICES = """
import { SpeechRoutes } from 'voicewright/routes';
import { SpeechError } from 'voicewright';
const runtime = new SpeechRoutes(process.argv[2]);
const recording = new Blob([Buffer.from(process.argv[3], 'base64')]);
const why = (error) => error instanceof SpeechError && [error.code, error.param];
const refused = (asked) => asked.then(() => null, why);
const checked = await runtime.checkVoice(recording, 'A word or two.');
const kept = await runtime.addVoice(recording, { name: 'Node', consent: 'Yes.', tags: 'calm' });
const heard = {
  modes: (await runtime.models()).flatMap((model) => model.modes),
  usable: checked.usable,
  taken: await refused(runtime.addVoice(recording, { name: 'Node', consent: 'Yes.' })),
  found: (await runtime.voices('node calm')).map((voice) => voice.id === kept.id),
  changed: (await runtime.editVoice('Node', { description: 'Low.', tags: ['a', 'b'] })).tags,
  description: (await runtime.voice(kept.id)).description,
  head: (await (await runtime.voiceAudio(kept.id)).text()).slice(0, 4),
};
const file = await runtime.exportVoice(kept.id);
await runtime.deleteVoice(kept.id);
const again = await runtime.importVoice(file, { name: 'Node / again?' });
heard.again = (await runtime.voice(again.id)).name;
await runtime.deleteVoice(again.id);
heard.gone = await refused(runtime.voice('nobody?'));
const words = [{ word: 'Nguyen', say_as: 'Win', case_sensitive: true }];
const { id } = await runtime.addPronunciationDictionary('Node', words);
await runtime.editPronunciationDictionary(id, { name: 'Node too' });
heard.dictionaries = (await runtime.pronunciationDictionaries()).filter((one) => one.id === id).map((one) => one.name);
heard.words = (await runtime.pronunciationDictionary(id)).pronunciations;
await runtime.deletePronunciationDictionary(id);
heard.forgotten = await refused(runtime.pronunciationDictionary(id));
heard.ticket = (await runtime.ticket()).length > 10;
heard.nowhere = await refused(new SpeechRoutes('http://127.0.0.1:9/v1/audio/speech/stream').models());
console.log(JSON.stringify([heard]));
"""


def run(folder: Path, *arguments: str, script: str = SCRIPT) -> list[dict[str, Any]]:
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "voicewright").symlink_to(node.CLIENT)
    (folder / "speak.mjs").write_text(script)
    command = [*node.command(), "speak.mjs", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    heard: list[dict[str, Any]] = json.loads(ended.stdout)
    return heard


async def test_node_receives_the_same_audio_as_other_clients(server: RunningServer, tmp_path: Path) -> None:
    alone = (await speak_text(server.socket, "Good morning.", **VOICE)).pcm
    whole, live, refused = run(tmp_path, server.socket, json.dumps(VOICE))
    assert refused == {"code": "unknown_voice", "param": "voice"}
    for take in (whole, live):
        pcm = base64.b64decode(take["pcm"])
        assert take["samples"] == len(pcm) // 2
        assert same_sound(pcm, alone)


WITHOUT_WEBSOCKET = """
import { SpeechError, SpeechSocket } from 'voicewright';
const own = globalThis.WebSocket;
delete globalThis.WebSocket; // as under Node 20
const said = [];
try {
  new SpeechSocket(process.argv[2]);
} catch (error) {
  said.push(error instanceof SpeechError, error.code, error.retryable, error.message);
}
const socket = new SpeechSocket(process.argv[2], { WebSocket: own });
socket.speak(JSON.parse(process.argv[3]), 'Good morning.', {
  onDone: (done) => {
    socket.close();
    console.log(JSON.stringify([...said, done.total_samples]));
  },
});
"""


def test_node_without_websocket_fails_immediately_and_accepts_an_implementation(
    server: RunningServer, tmp_path: Path
) -> None:
    *messages, samples = run(tmp_path, server.socket, json.dumps(VOICE), script=WITHOUT_WEBSOCKET)
    why = "There is no WebSocket here; use Node 22 or later, or pass one: new SpeechSocket(url, { WebSocket })."
    assert messages == [True, "websocket_missing", False, why]
    assert samples == VOICE["max_frames"] * 1920


def test_node_can_store_change_export_and_import_voices(server: RunningServer, tmp_path: Path) -> None:
    recording = wav((np.sin(np.arange(48_000) / 20) * 9000).astype("<i2").tobytes())
    (heard,) = run(tmp_path, server.socket, base64.b64encode(recording).decode(), script=VOICES)
    assert "base" in heard.pop("modes")
    assert heard == {
        "usable": True,
        "taken": ["voice_name_taken", "name"],
        "found": [True],
        "changed": ["a", "b"],
        "description": "Low.",
        "head": "RIFF",
        "again": "Node / again?",
        "gone": ["voice_not_found", None],
        "dictionaries": ["Node too"],
        "words": [{"word": "Nguyen", "say_as": "Win", "case_sensitive": True}],
        "forgotten": ["pronunciation_dictionary_not_found", None],
        "ticket": True,
        "nowhere": ["runtime_unavailable", None],
    }
