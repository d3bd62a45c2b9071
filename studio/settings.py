"""What the studio process itself can be told; every other argument belongs to the runtime that it starts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from platformdirs import user_data_dir

from runtime.errors import InvalidSetting
from studio.transcribing.plugin import Choice

TRANSCRIBER = "faster-whisper:small"  # used where it is installed; VOICEWRIGHT_TRANSCRIBER names another, or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioSettings:
    """Where the page listens and which runtime it uses."""

    host: str = "127.0.0.1"
    port: int = 7860
    runtime_url: str | None = None  # None: start one as a child
    runtime_args: tuple[str, ...] = ()
    data: str = ""
    transcriber: Choice = field(default_factory=lambda: Choice.of(TRANSCRIBER))

    @property
    def folder(self) -> Path:
        """Where the studio keeps what is its own."""
        return Path(self.data) if self.data else Path(user_data_dir("voicewright")) / "studio"

    @classmethod
    def from_command_line(cls, argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> Self:
        """Read arguments over the environment (HOST, PORT, VOICEWRIGHT_RUNTIME_URL) over the defaults.

        Raises:
            InvalidSetting: a port is no port, a recogniser's name is none, or a runtime's arguments came
                with the URL of a running one.
        """
        env = os.environ if env is None else env
        default = cls()
        parser = argparse.ArgumentParser(
            prog="app.py",
            description="Serve the voice studio and the runtime behind it on one port.",
            epilog="All other arguments go to the runtime: see voicewright runtime --help.",
            allow_abbrev=False,
        )
        parser.add_argument("--host", default=env.get("HOST", default.host), help="address to listen on")
        parser.add_argument("--port", default=env.get("PORT", str(default.port)), help="port of the page")
        parser.add_argument(
            "--runtime-url",
            default=env.get("VOICEWRIGHT_RUNTIME_URL"),
            help="use the runtime at this URL, do not start one",
        )
        known, rest = parser.parse_known_args(argv)
        if known.runtime_url and rest:
            why = "that runtime is not started here; give its arguments to it"
            raise InvalidSetting(name=rest[0], value="given beside --runtime-url", why=why)
        return cls(
            host=known.host,
            port=_port(known.port),
            runtime_url=known.runtime_url.rstrip("/") if known.runtime_url else None,
            runtime_args=tuple(rest),
            data=env.get("VOICEWRIGHT_DATA", ""),
            transcriber=Choice.of(env.get("VOICEWRIGHT_TRANSCRIBER", TRANSCRIBER)),
        )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidSetting(name="port", value=repr(text), why="it must be a number from 0 to 65535")
    return int(text)
