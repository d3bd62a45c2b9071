"""Settings of the studio, from the command line and environment variables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from platformdirs import user_data_dir

from runtime.errors import InvalidSetting
from runtime.setting_fields import group_from_env, setting
from studio.transcribing.plugin import Choice

# Default recogniser, used if it is installed. VOICEWRIGHT_TRANSCRIBER selects another recogniser or none.
TRANSCRIBER = "faster-whisper:base"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of the studio's data store (docs/guide.md)."""

    data: str = setting("", "VOICEWRIGHT_DATA", "data folder; empty: the user's")
    visitors: str = setting(
        "auto",
        "VOICEWRIGHT_VISITORS",
        "one: all visitors share a history; each: every visitor has their own; auto: each on a Hugging Face Space",
        choices=("auto", "one", "each"),
    )
    visitor_days: int = setting(30, "VOICEWRIGHT_VISITOR_DAYS", "days for which a visitor's data is kept", low=1)
    bin_s: float = setting(86400.0, "VOICEWRIGHT_BIN_S", "seconds for which deleted items can be restored", low=1)
    max_take_bytes: int = setting(
        32 * 2**20, "VOICEWRIGHT_MAX_TAKE_BYTES", "bytes of one take's samples, 48000 per second", low=48000
    )
    max_takes: int = setting(
        1000, "VOICEWRIGHT_MAX_TAKES", "takes of one owner outside scripts; more are refused", low=1
    )
    max_scripts: int = setting(200, "VOICEWRIGHT_MAX_SCRIPTS", "scripts of one owner", low=1)
    max_store_bytes: int = setting(
        10 * 2**30, "VOICEWRIGHT_MAX_STORE_BYTES", "bytes of all stored data except voices", low=2**20
    )
    visitor_store_bytes: int = setting(
        256 * 2**20,
        "VOICEWRIGHT_VISITOR_STORE_BYTES",
        "bytes that a visitor with their own history may store",
        low=2**20,
    )
    address_store_bytes: int = setting(
        2**30,
        "VOICEWRIGHT_ADDRESS_STORE_BYTES",
        "bytes that all visitors from one address (IPv6: a /64 network) may store together",
        low=2**20,
    )
    share_links: str = setting(
        "off",
        "VOICEWRIGHT_SHARE_LINKS",
        "on: owners may share takes by link",
        choices=("on", "off"),
    )
    max_export_s: float = setting(
        3600.0,
        "VOICEWRIGHT_MAX_EXPORT_S",
        "seconds of audio in one export of a visitor with their own history",
        low=1,
    )

    @property
    def folder(self) -> Path:
        """Return the folder of all stored data, which is also the default folder of voices."""
        return Path(self.data or user_data_dir("voicewright"))

    @property
    def export_limit_s(self) -> float | None:
        """Return the maximum duration of exported audio in seconds, or None if it is unlimited."""
        return self.max_export_s if self.has_separate_histories() else None

    def has_separate_histories(self, env: Mapping[str, str] | None = None) -> bool:
        """Return True if each visitor has a separate history of recordings.

        This depends on the settings and on the environment `env`.
        """
        env = os.environ if env is None else env
        return self.visitors == "each" or (self.visitors == "auto" and bool(env.get("SPACE_ID")))


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitSettings:
    """Settings for visitors with separate histories, such as usage limits (docs/deploy.md)."""

    host_key: str = setting(
        "", "VOICEWRIGHT_HOST_KEY", "key of the Host tab for other machines; empty: only the host's machine"
    )
    sign_in: str = setting(
        "optional",
        "VOICEWRIGHT_SIGN_IN",
        "sign-in of visitors, if a provider is set (OPENID_PROVIDER_URL)",
        choices=("optional", "required", "off"),
    )
    visitor_sockets: int = setting(3, "VOICEWRIGHT_VISITOR_SOCKETS", "open sockets of one visitor", low=1)
    visitor_requests: int = setting(
        4, "VOICEWRIGHT_VISITOR_REQUESTS", "HTTP speech requests in flight of one visitor", low=1
    )
    frame_ancestors: str = setting(
        "",
        "VOICEWRIGHT_FRAME_ANCESTORS",
        "origins that may show the studio in a frame, separated by spaces",
    )
    visitors_per_address: int = setting(
        8,
        "VOICEWRIGHT_VISITORS_PER_ADDRESS",
        "visitors of one address per day that have their own limits; the others share one; 0: unlimited",
        low=0,
    )
    visitor_speech_s: float = setting(
        0.0, "VOICEWRIGHT_VISITOR_SPEECH_S", "seconds of speech per visitor and day; 0: unlimited", low=0
    )
    member_speech_s: float = setting(
        0.0, "VOICEWRIGHT_MEMBER_SPEECH_S", "seconds of speech per signed-in visitor and day; 0: unlimited", low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudioSettings:
    """Settings of the studio's server and its runtime."""

    host: str = "127.0.0.1"
    port: int = 7860
    runtime_url: str | None = None  # URL of an external runtime, or None to start a runtime.
    runtime_args: tuple[str, ...] = ()
    store: StoreSettings = field(default_factory=StoreSettings)
    visits: VisitSettings = field(default_factory=VisitSettings)
    transcriber: Choice = field(default_factory=lambda: Choice.of(TRANSCRIBER))

    @classmethod
    def from_command_line(cls, argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> Self:
        """Read the settings of the studio.

        Command-line arguments override the environment variables HOST, PORT and VOICEWRIGHT_RUNTIME_URL, which override
        the defaults. Unknown arguments are passed to the runtime.

        Raises:
            InvalidSetting: A port, a URL or a variable is invalid, or there are runtime arguments as well as a runtime
                URL.
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
        parser.add_argument("--port", help="port of the page")
        parser.add_argument("--runtime-url", help="use the runtime at this URL, do not start one")
        known, rest = parser.parse_known_args(argv)
        port = _port(*_given("--port", known.port, "PORT", env, str(default.port)))
        runtime_url = _url(*_given("--runtime-url", known.runtime_url, "VOICEWRIGHT_RUNTIME_URL", env, ""))
        if runtime_url and rest:
            why = "the studio does not start that runtime; pass the arguments to the runtime itself"
            raise InvalidSetting(name=rest[0], value="given with --runtime-url", why=why)
        return cls(
            host=known.host,
            port=port,
            runtime_url=runtime_url,
            runtime_args=tuple(rest),
            store=group_from_env(StoreSettings, env),
            visits=group_from_env(VisitSettings, env),
            transcriber=Choice.of(env.get("VOICEWRIGHT_TRANSCRIBER", TRANSCRIBER)),
        )


def _given(option: str, value: str | None, variable: str, env: Mapping[str, str], default: str) -> tuple[str, str]:
    """Return the name of the option or variable that was set, and its value."""
    return (option, value) if value is not None else (variable, env.get(variable, default))


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidSetting(name=name, value=repr(text), why="it must be a number from 0 to 65535")
    return int(text)


def _url(name: str, text: str) -> str | None:
    """Return the URL of an external runtime without a trailing slash, or None if not set."""
    if not text:
        return None
    if not _is_url(text):
        raise InvalidSetting(name=name, value=repr(text), why="it must be a URL such as http://127.0.0.1:8210")
    return text.rstrip("/")


def _is_url(text: str) -> bool:
    """True if the text is a valid URL of a runtime, without query and fragment."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        return False
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # The port or the IPv6 address is invalid.
        return False
    return has_place and parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
