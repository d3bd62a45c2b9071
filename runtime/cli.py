"""Command line of the runtime: argument parser, and one function per command."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from runtime.errors import Failed, InvalidSetting, SpeechError
from runtime.exits import Exit
from runtime.option_names import message_with_options
from runtime.request import Mode, Split
from runtime.setting_fields import override
from runtime.settings import Settings
from runtime.shared.python_warnings import log_warnings
from runtime.variables import warn_of_unknown

VERBOSE = "write log messages to stderr"
QUANTIZE = "auto, off, int8 or int4: bits per weight of the talker and code predictor; GPUs support int8"
DEFAULT_WYOMING_URI = "tcp://127.0.0.1:10200"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in the arguments and return its exit status.

    An error that the user can correct is printed as one line to stderr, and the exit status is 2.
    """
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    log_warnings(is_verbose=arguments.verbose)
    try:
        return int(arguments.run(arguments))
    except SpeechError as error:
        message = message_with_options(error) if arguments.run is _run_say else str(error)
        print(f"voicewright: {message} [{error.code}]", file=sys.stderr)
        return Exit.FAILED if isinstance(error, Failed) else Exit.BAD_INPUT
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # The program that reads the output of --stdout has closed the pipe.
        return 0


class Parser(argparse.ArgumentParser):
    """Argument parser that prints a usage error as one line and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.BAD_INPUT, f"{self.prog}: {message}; see {self.prog} --help [invalid_setting]\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="voicewright", description="Qwen3-TTS as a streaming voice studio.")
    parser.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_say(commands.add_parser("say", help="speak one text, in this process"))
    _add_runtime(commands.add_parser("runtime", help="run the runtime process that apps and the studio connect to"))
    _add_wyoming(commands.add_parser("wyoming", help="run the runtime process with Wyoming, for Home Assistant"))
    _add_cluster(commands.add_parser("cluster", help="run several runtime processes behind one port"))
    _add_doctor(commands.add_parser("doctor", help="report a checkpoint's capabilities and problems on this machine"))
    _add_fetch(commands.add_parser("fetch", help="fetch checkpoints from the Hub, and resume earlier downloads"))
    _add_quantize(commands.add_parser("quantize", help="write a copy of a checkpoint with quantized weights"))
    _add_bench(commands.add_parser("bench", help="measure frames by batch size, and TTFA over the WebSocket"))
    for command in commands.choices.values():  # These options are accepted before and after the command.
        command.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE)
    return parser


def _add_say(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--mode", choices=[str(mode) for mode in Mode], default=str(Mode.CUSTOM_VOICE))
    parser.add_argument("--voice", metavar="NAME", help="speaker of the checkpoint (custom_voice)")
    parser.add_argument("--language", metavar="LANG", default="auto")
    parser.add_argument("--instruct", metavar="TEXT", help="how to speak, or the voice to design")
    parser.add_argument(
        "--tags", action="store_true", help="read tags: [excited] sets a style, [pause:500ms] adds a pause"
    )
    parser.add_argument(
        "--pronounce",
        action="append",
        default=[],
        metavar="WORD=SAID",
        help="replace a whole word with another spelling; may be repeated",
    )
    parser.add_argument("--ref-audio", metavar="FILE", type=Path, help="voice to clone (base)")
    parser.add_argument("--ref-text", metavar="TEXT", help="exact transcript of the reference audio")
    parser.add_argument("--x-vector-only", action="store_true", help="clone without a transcript")
    parser.add_argument(
        "--clean-reference", action="store_true", help="trim silence, and append a pause to the reference"
    )
    parser.add_argument("--layout", choices=["streaming", "non_streaming"], help="position of the text in the prompt")
    _add_engine_arguments(parser)
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--greedy", action="store_true", help="select the most probable code at both levels")
    parser.add_argument(
        "--max-frames",
        type=int,
        metavar="N",
        help="frame limit (80 ms each) instead of the automatic limit, with the text as one segment",
    )
    parser.add_argument(
        "--split",
        choices=[split.value for split in Split],
        help="where the text is split; auto: only if it is too long for the checkpoint to speak it in one part",
    )
    parser.add_argument("--out", metavar="FILE.wav", type=Path)
    parser.add_argument("--codes-out", metavar="FILE.npy", type=Path)
    parser.add_argument("--stdout", action="store_true", help="write raw 24 kHz s16le while it is generated")
    parser.set_defaults(run=_run_say)


def _add_runtime(parser: argparse.ArgumentParser) -> None:
    _add_runtime_arguments(parser)
    _add_wyoming_argument(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the checkpoints and their memory, print the result as JSON, then exit",
    )
    parser.set_defaults(run=_runtime)


def _add_wyoming_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wyoming", metavar="URI", help="also serve Home Assistant, at tcp://HOST:PORT")


def _add_wyoming(parser: argparse.ArgumentParser) -> None:
    _add_runtime_arguments(parser)
    parser.add_argument(
        "--uri", metavar="URI", dest="wyoming", help=f"tcp://HOST:PORT to serve; {DEFAULT_WYOMING_URI} without it"
    )
    parser.set_defaults(run=_wyoming, check=False)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    _add_runtime_arguments(parser)
    _add_wyoming_argument(parser)
    parser.add_argument("--replicas", type=int, metavar="N", help="number of runtime processes, one per device")
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME=REPLICAS:MODEL[,MODEL...]",
        help="runtime processes of other checkpoints behind the same port, instead of --model; may be repeated",
    )
    parser.add_argument(
        "--gpus",
        type=float,
        metavar="N",
        help="GPUs that Ray reserves for each runtime process; default: one, if Ray has any",
    )
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="change the cluster that runs at this address, and return"
    )
    parser.add_argument("--restart", action="store_true", help="replace every runtime process, one after the other")
    parser.set_defaults(run=_cluster)


def _add_runtime_arguments(parser: argparse.ArgumentParser) -> None:
    _add_engine_arguments(parser)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument(
        "--max-slots",
        type=int,
        metavar="N",
        help="maximum number of concurrent requests per checkpoint; 0: as many as fit into memory",
    )
    parser.add_argument("--loads", help="start: load checkpoints at startup; first_use: at the first request")
    parser.add_argument("--eager", action="store_true", help="run without graphs, as CPUs always do")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="+",
        help="folder, or Hub id with an optional @revision (no weights are fetched); "
        "several adapters of one base are one checkpoint",
    )
    parser.add_argument("--device", help="auto, cpu, cuda, npu or mps")
    parser.add_argument("--dtype", help="auto, float32 or bfloat16")
    parser.add_argument("--quantize", help=QUANTIZE)
    parser.add_argument(
        "--max-slots", type=int, metavar="N", help="required concurrent requests; 0: as many as fit into memory"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_doctor)


def _add_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="ID", nargs="*", help="Hub id with an optional @revision")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="fetch nothing; print the published checkpoints and their fit as JSON",
    )
    parser.add_argument(
        "--recogniser",
        action="store_true",
        help="the ID is a Whisper model of CTranslate2, for transcripts",
    )
    parser.add_argument("--device", help="auto, cpu, cuda, npu or mps, for --plan")
    parser.add_argument("--dtype", help="auto, float32 or bfloat16, for --plan")
    parser.add_argument("--quantize", help=f"{QUANTIZE}, for --plan")
    parser.add_argument("--json", action="store_true", help="print progress as JSON lines")
    parser.set_defaults(run=_fetch)


def _add_quantize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="folder, or Hub id with an optional @revision")
    parser.add_argument(
        "--bits", type=int, choices=(8, 4), required=True, help="bits per weight of the talker and code predictor"
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="a new folder, or an empty one")
    parser.set_defaults(run=_quantize)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_engine_arguments(parser)
    parser.add_argument("--replies", type=int, default=10, metavar="N", help="measured replies of each client")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=_bench)


def _add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        action="append",
        metavar="[MODE=]PATH_OR_ID",
        help="checkpoint folder or Hub id with an optional @revision; may be given once per mode and for each adapter",
    )
    parser.add_argument("--device", help="auto, cpu, cuda, npu or mps")
    parser.add_argument("--dtype", help="auto, float32 or bfloat16")
    parser.add_argument("--quantize", help=QUANTIZE)


def _settings(arguments: argparse.Namespace, **engine: object) -> Settings:
    settings = Settings.from_env()
    return replace(
        settings,
        models=tuple(arguments.model) if arguments.model else settings.models,
        engine=override(
            settings.engine,
            device=arguments.device,
            dtype=arguments.dtype,
            quantize=arguments.quantize,
            **engine,
        ),
    )


def _run_say(arguments: argparse.Namespace) -> int:
    # The import is not at the top of the file, because it loads torch, which --help does not need.
    from runtime.say import say

    return say(arguments, _settings(arguments, max_slots=1))


def _runtime(arguments: argparse.Namespace) -> int:
    # None means that the option is not given, so the environment variable applies.
    eager = True if arguments.eager else None
    settings = _settings(arguments, max_slots=arguments.max_slots, loads=arguments.loads, eager=eager)
    if arguments.check:
        from runtime.engine.capacity.doctor import check_checkpoints

        print(json.dumps(asdict(check_checkpoints(settings))))
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_early)  # This handler is active until the server installs its own.
    from runtime.server.launch import launch

    server = override(settings.server, host=arguments.host, port=arguments.port, wyoming=arguments.wyoming)
    warn_of_unknown(os.environ)
    return launch(replace(settings, server=server))


def _cluster(arguments: argparse.Namespace) -> int:
    from runtime.cluster.command import cluster

    eager = True if arguments.eager else None
    settings = _settings(arguments, max_slots=arguments.max_slots, loads=arguments.loads, eager=eager)
    server = override(settings.server, host=arguments.host, port=arguments.port, wyoming=arguments.wyoming)
    return cluster(
        replace(settings, server=server, cluster=override(settings.cluster, replicas=arguments.replicas)),
        pools=arguments.pool,
        address=arguments.address,
        restart=arguments.restart,
        gpus=arguments.gpus,
    )


def _wyoming(arguments: argparse.Namespace) -> int:
    arguments.wyoming = arguments.wyoming or Settings.from_env().server.wyoming or DEFAULT_WYOMING_URI
    return _runtime(arguments)


def _doctor(arguments: argparse.Namespace) -> int:
    from runtime.doctor import doctor

    engine = Settings.from_env().engine
    engine = override(
        engine,
        device=arguments.device,
        dtype=arguments.dtype,
        quantize=arguments.quantize,
        max_slots=arguments.max_slots,
    )
    return 0 if doctor(arguments.model, engine, as_json=arguments.json) else Exit.BAD_INPUT


def _fetch(arguments: argparse.Namespace) -> int:
    from runtime.fetch import fetch, plan

    if arguments.plan:
        engine = Settings.from_env().engine
        engine = override(engine, device=arguments.device, dtype=arguments.dtype, quantize=arguments.quantize)
        print(json.dumps(plan(engine)))
        return 0
    if not arguments.model:
        raise InvalidSetting(name="ID", value="missing", why="name a checkpoint of the Hub (owner/name), or --plan")
    return fetch(arguments.model, as_json=arguments.json, is_recogniser=arguments.recogniser)


def _quantize(arguments: argparse.Namespace) -> int:
    from runtime.quantize import quantize

    return quantize(arguments.model, arguments.bits, arguments.out)


def _end_early(number: int, frame: object) -> NoReturn:
    os._exit(0)  # The interpreter's normal shutdown would abort while another thread loads the engine.


def _bench(arguments: argparse.Namespace) -> int:
    try:
        (bench,) = (command.load() for command in entry_points(group="voicewright.commands", name="bench"))
    except (ModuleNotFoundError, ValueError):
        why = "run it in a checkout of the repository, as docs/performance.md says"
        raise InvalidSetting(name="bench", value="not in this installation", why=why) from None
    bench(_settings(arguments), arguments.replies, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
