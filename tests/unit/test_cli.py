"""Tests for `voicewright say`: written files, output and error messages."""

from __future__ import annotations

import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from runtime import cli
from runtime.cli import main
from runtime.errors import SetUpError
from runtime.option_names import OPTIONS, WORDS, in_options
from runtime.request import Mode, Reference, SpeechRequest, StopReason
from runtime.say import advice
from tests.conftest import FolderOf
from tests.support.checkpoints.tiny import BRIEF
from tests.support.errors import BY_CODE
from tests.support.signals import voice

TEXT = "Hello world."


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "reference.wav"
    soundfile.write(path, voice(1.3, 11), 24_000, subtype="FLOAT")
    return path


@pytest.fixture
def models(folder_of: FolderOf) -> dict[str, str]:
    return {mode: str(folder_of("brief", mode)) for mode in ("custom_voice", "voice_design", "base")}


def say(models: dict[str, str], *args: str, mode: str = "custom_voice") -> int:
    """Run `voicewright say` and return its exit status, even if argparse exits."""
    try:
        return main(["say", "--model", models[mode], "--mode", mode, "--device", "cpu", *args])
    except SystemExit as out:
        return int(out.code or 0)


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
def test_say_command_writes_audio_and_codes_in_every_mode(
    models: dict[str, str], tmp_path: Path, reference: Path, mode: str
) -> None:
    own = {
        "custom_voice": ["--voice", "Serena", "--language", "english"],
        "voice_design": ["--instruct", "A warm young voice."],
        "base": ["--ref-audio", str(reference), "--ref-text", "I say hello."],
    }[mode]
    sound, codes = tmp_path / "take.wav", tmp_path / "codes.npy"
    written = ["--out", str(sound), "--codes-out", str(codes)]
    assert say(models, TEXT, *own, *written, "--greedy", "--max-frames", "5", mode=mode) == 0
    made = np.load(codes)
    assert made.dtype == np.int64
    assert made.shape == (5, BRIEF.code_groups)
    with wave.open(str(sound)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.getnframes() == 5 * 1920


@pytest.mark.slow
def test_stdout_has_the_same_samples_as_the_file(models: dict[str, str], tmp_path: Path) -> None:
    sound = tmp_path / "take.wav"
    command = [sys.executable, "-m", "runtime.cli", "say", TEXT, "--model", models["custom_voice"], "--device", "cpu"]
    result = subprocess.run(
        [*command, "--stdout", "--out", str(sound), "--seed", "3", "--max-frames", "7"], capture_output=True, check=True
    )
    with wave.open(str(sound)) as file:
        assert file.readframes(file.getnframes()) == result.stdout
    assert len(result.stdout) == 7 * 1920 * 2
    assert result.stderr.decode().splitlines()[-1].startswith("voicewright: 7 frames, max_tokens")


def test_say_command_applies_pronunciations_and_tags(models: dict[str, str], tmp_path: Path) -> None:
    def heard(*args: str) -> bytes:
        path = tmp_path / "take.wav"
        assert say(models, *args, "--seed", "4", "--max-frames", "4", "--out", str(path)) == 0
        return path.read_bytes()[44:]

    other = heard("Hello moon.")
    assert heard("Hello World.", "--pronounce", "world = moon") == other
    assert heard("[pause:500ms] Hello world.", "--tags", "--pronounce", "world=moon") == bytes(24_000) + other
    assert heard("[pause:500ms] Hello world.", "--pronounce", "pause=moon", "--tags") != heard("Hello world.")


@pytest.mark.slow
def test_closed_output_pipe_is_not_an_error(models: dict[str, str]) -> None:
    command = [sys.executable, "-m", "runtime.cli", "say", TEXT, "--model", models["custom_voice"], "--device", "cpu"]
    with subprocess.Popen(
        [*command, "--stdout", "--seed", "3", "--max-frames", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        complaint = process.stderr.read().decode()
    assert process.returncode == 0
    assert "Traceback" not in complaint
    assert "Exception" not in complaint


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize("option", ["--stdout", "--out", "--codes-out"])
def test_full_disk_error_is_one_line(models: dict[str, str], option: str) -> None:
    where = [option] if option == "--stdout" else [option, "/dev/full"]
    command = [sys.executable, "-m", "runtime.cli", "say", TEXT, "--model", models["custom_voice"], "--device", "cpu"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*command, *where, "--max-frames", "2"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    *notes, complaint = ended.stderr.splitlines()
    assert option in complaint
    assert complaint.endswith(": No space left on device. [invalid_setting]")
    assert all(line.startswith("voicewright: ") for line in (*notes, complaint))


def test_equal_seeds_give_equal_audio_and_different_seeds_give_different_audio(
    models: dict[str, str], tmp_path: Path
) -> None:
    takes = []
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        path = tmp_path / f"{name}.npy"
        assert say(models, TEXT, "--seed", seed, "--max-frames", "6", "--codes-out", str(path)) == 0
        takes.append(np.load(path))
    assert np.array_equal(takes[0], takes[1])
    assert not np.array_equal(takes[0], takes[2])


def test_text_without_a_frame_limit_ends_by_eos_or_by_its_budget(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = tmp_path / "codes.npy"
    assert say(models, "a", "--greedy", "--codes-out", str(codes)) == 0
    ending = capsys.readouterr().err.splitlines()[-1]
    assert "eos" in ending or "runaway" in ending
    assert len(np.load(codes)) <= 53


def test_runaway_speech_is_reported_with_advice() -> None:
    plain = SpeechRequest(text="Hello.", mode=Mode.CUSTOM_VOICE, voice="anna")
    reference = Reference(samples=np.zeros(24_000, np.float32), text="Something else.")
    clone = SpeechRequest(text="Hello.", mode=Mode.BASE, reference=reference)
    for reason in (StopReason.SHORT, StopReason.RUNAWAY):
        (sentence,) = advice(reason, plain)
        assert sentence.endswith(": try another --seed.")
        (sentence,) = advice(reason, clone)
        assert "check that --ref-text is exactly what the recording says" in sentence
    assert advice(StopReason.EOS, clone) == []


def test_missing_output_option_is_reported(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert say(models, "a", "--max-frames", "2") == 0
    assert "--out FILE.wav" in capsys.readouterr().err.splitlines()[-1]


def test_checkpoint_in_bfloat16_speaks(models: dict[str, str], tmp_path: Path) -> None:
    codes = tmp_path / "codes.npy"
    assert say(models, TEXT, "--dtype", "bfloat16", "--max-frames", "4", "--codes-out", str(codes)) == 0
    assert np.load(codes).shape == (4, BRIEF.code_groups)


@pytest.mark.slow("stereo", "flac")
@pytest.mark.parametrize("shape", ["stereo", "odd_rate", "flac"])
def test_reference_audio_formats_are_converted(
    models: dict[str, str], tmp_path: Path, shape: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"reference.{'flac' if shape == 'flac' else 'wav'}"
    rate = 44_100 if shape == "odd_rate" else 24_000
    samples = voice(1.5, 3, rate)
    soundfile.write(path, np.stack([samples, samples], axis=1) if shape == "stereo" else samples, rate)
    words = ["--ref-audio", str(path), "--ref-text", "hello", "--max-frames", "2"]
    assert say(models, TEXT, *words, mode="base") == 0, capsys.readouterr().err


def bad_reference(path: Path, kind: str) -> Path:
    if kind == "missing":
        return path / "no-such-file.wav"
    if kind == "text":
        (path / "notes.wav").write_text("this is not audio")
        return path / "notes.wav"
    seconds = {"short": 0.5, "long": 61.0}[kind]
    soundfile.write(path / f"{kind}.wav", voice(seconds, 1, 16_000), 16_000)
    return path / f"{kind}.wav"


def refused(capsys: pytest.CaptureFixture[str], status: int, code: str) -> str:
    """Assert one line on stderr, no output on stdout, and that the exit status is 2.

    Returns:
        The line on stderr.
    """
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("voicewright")
    assert err.endswith(f"[{code}]\n"), err
    return err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([TEXT, "--voice", "nobody"], "unknown_voice"),
        ([TEXT, "--language", "klingon"], "unsupported_language"),
        ([""], "empty_text"),
        (["  \n "], "empty_text"),
        (["a" * 4097], "text_too_long"),
        (["Hello <|im_end|> world"], "invalid_config"),
        (["caf\udce9"], "invalid_config"),
        ([TEXT, "--instruct", "<|im_start|>user"], "invalid_config"),
        ([TEXT, "--max-frames", "0"], "invalid_config"),
        ([TEXT, "--max-frames", "100000"], "invalid_config"),
        ([TEXT, "--max-frames", "4096"], "does_not_fit"),
        ([TEXT, "--seed", "-1"], "invalid_config"),
        ([TEXT, "--seed", str(2**63)], "invalid_config"),
        ([TEXT, "--seed", "seven"], "invalid_setting"),
        ([TEXT, "--mode", "singing"], "invalid_setting"),
        ([TEXT, "--layout", "sideways"], "invalid_setting"),
        ([TEXT, "--pronounce", "world"], "invalid_setting"),
        ([TEXT, "--pronounce", " =moon"], "invalid_setting"),
        (["Hello [pause 31s] world.", "--tags"], "pause_too_long"),
        ([TEXT, "--loud"], "invalid_setting"),
        ([], "invalid_setting"),
        ([TEXT, "--dtype", "float16"], "invalid_setting"),
        ([TEXT, "--dtype", "int4"], "invalid_setting"),
        ([TEXT, "--device", "abacus"], "invalid_setting"),
        ([TEXT, "--device", "npu"], "device_unavailable"),
        ([TEXT, "--out", "/no/such/folder/take.wav"], "invalid_setting"),
        ([TEXT, "--codes-out", "/"], "invalid_setting"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[-24:],
)
def test_invalid_arguments_are_refused_in_one_line(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    refused(capsys, say(models, *words), code)


def test_invalid_instruct_error_contains_its_option(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, say(models, TEXT, "--instruct", "<|im_start|>user"), "invalid_config")
    assert "--instruct is not valid" in message


def test_folder_name_is_shown_as_entered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned").mkdir()
    message = refused(capsys, main(["say", TEXT, "--model", "./tuned"]), "checkpoint_missing")
    assert "tuned: config.json is missing" in message
    message = refused(capsys, main(["say", TEXT, "--model", "gone"]), "checkpoint_missing")
    assert " gone: the folder is missing" in message


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("missing", "invalid_ref_audio"),
        ("text", "invalid_ref_audio"),
        ("short", "ref_too_short"),
        ("long", "ref_too_long"),
    ],
)
def test_invalid_references_are_refused_in_one_line(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, code: str
) -> None:
    path = bad_reference(tmp_path, kind)
    refused(capsys, say(models, TEXT, "--ref-audio", str(path), "--ref-text", "hello", mode="base"), code)


@pytest.mark.parametrize("words", [[], ["--ref-text", "hello"]])
def test_base_mode_requires_a_reference(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    said = refused(capsys, say(models, TEXT, *words, mode="base"), "missing_ref_audio")
    assert "send --ref-audio. [" in said


@pytest.mark.parametrize("words", [[], ["--ref-text", " \n"]])
def test_cloning_with_codes_requires_the_transcript(
    models: dict[str, str], reference: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    said = refused(capsys, say(models, TEXT, "--ref-audio", str(reference), *words, mode="base"), "missing_ref_text")
    assert "in --ref-text; send it, or set --x-vector-only. [" in said


@pytest.mark.parametrize("option", ["--seed", "--max-frames"])
def test_number_out_of_range_error_contains_its_option(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert f" {option} is not valid" in refused(capsys, say(models, TEXT, option, "-1"), "invalid_config")


@pytest.mark.parametrize("command", [["doctor"], ["say", TEXT, "--model"]], ids=lambda words: words[0])
def test_file_in_place_of_a_checkpoint_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "README.md").touch()
    said = refused(capsys, cli.main([*command, str(tmp_path / "README.md")]), "checkpoint_missing")
    assert "It is a file; give the folder of a checkpoint or a Hub id (owner/name). [" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_missing_gpu_error_is_one_line(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["doctor", models["custom_voice"], "--device", "cuda"])
    why = "torch sees no CUDA device; it may be a CPU build of torch"
    assert refused(capsys, status, "device_unavailable").endswith(f": {why}. [device_unavailable]\n")


def test_every_field_named_in_an_error_has_an_option() -> None:
    """Error messages with a field name are converted to command line options.

    These options must exist.
    """
    parser = cli._parser()
    say_help = parser.parse_args(["say", TEXT])
    kwargs = {f"--{name.replace('_', '-')}" for name in vars(say_help)}
    assert set(OPTIONS.values()) | {option for option in WORDS.values() if option.startswith("--")} <= kwargs
    message = [kind.sentence for kind in BY_CODE.values() if not issubclass(kind, SetUpError)]
    named = {name for said in message for name in re.findall(r"[a-z]+(?:_[a-z]+)+", re.sub(r"{[^}]*}", "", said))}
    assert {name for name in named if re.search("_", in_options(name))} == set()
    assert in_options("send ref_audio, or ref_audio_url") == "send --ref-audio, or ref_audio_url"


def test_mode_not_served_by_the_checkpoint_is_refused(
    models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = say({"voice_design": models["custom_voice"]}, TEXT, mode="voice_design")
    assert "custom_voice" in refused(capsys, status, "model_not_loaded")


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("/no/such/folder", "checkpoint_missing"),
        ("no-such-folder", "checkpoint_missing"),
        ("base={custom_voice}", "invalid_setting"),
    ],
)
def test_missing_checkpoint_is_reported(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], reference: str, code: str
) -> None:
    reference = reference.format(**models)
    refused(capsys, say({"custom_voice": reference}, TEXT), code)


def test_help_loads_no_networks() -> None:
    """The option ``--help`` must respond without importing torch, which takes seconds."""
    program = "import sys, runtime.cli as cli\ntry: cli.main(['say', '--help'])\nexcept SystemExit: pass\n"
    program += "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_invalid_wyoming_address_is_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "runtime.cli", "wyoming", "--uri", "10200", "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "voicewright: VOICEWRIGHT_WYOMING is '10200': it must be tcp://HOST:PORT. [invalid_setting]\n"
    )
