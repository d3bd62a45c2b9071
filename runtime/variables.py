"""Names of all environment variables, and warnings about unknown variables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches

from runtime.request import Mode
from runtime.settings import MODEL, ClusterSettings, EngineSettings, Limits, ModeSettings, ServerSettings

log = logging.getLogger(__name__)

PREFIX = "VOICEWRIGHT_"

# Environment variables that the studio reads (studio/settings.py). They are known here, because a runtime that the
# studio starts inherits its environment.
OF_THE_STUDIO = frozenset(
    {
        *("VOICEWRIGHT_RUNTIME_URL", "VOICEWRIGHT_TRANSCRIBER", "VOICEWRIGHT_DATA", "VOICEWRIGHT_VISITORS"),
        *("VOICEWRIGHT_VISITOR_DAYS", "VOICEWRIGHT_BIN_S", "VOICEWRIGHT_MAX_TAKE_BYTES", "VOICEWRIGHT_MAX_TAKES"),
        *("VOICEWRIGHT_MAX_SCRIPTS", "VOICEWRIGHT_MAX_STORE_BYTES", "VOICEWRIGHT_SHARE_LINKS"),
        *("VOICEWRIGHT_MAX_EXPORT_S", "VOICEWRIGHT_HOST_KEY", "VOICEWRIGHT_SIGN_IN", "VOICEWRIGHT_VISITOR_SOCKETS"),
        *("VOICEWRIGHT_VISITOR_REQUESTS", "VOICEWRIGHT_VISITOR_SPEECH_S", "VOICEWRIGHT_MEMBER_SPEECH_S"),
        *(
            "VOICEWRIGHT_VISITORS_PER_ADDRESS",
            "VOICEWRIGHT_VISITOR_STORE_BYTES",
            "VOICEWRIGHT_ADDRESS_STORE_BYTES",
            "VOICEWRIGHT_FRAME_ANCESTORS",
        ),
    }
)
# Prefixes of environment variables that only tests read.
_OF_TESTS = (f"{PREFIX}TEST_", f"{PREFIX}TOUR", f"{PREFIX}RAYSERVICE_CRD")


def of_the_runtime() -> frozenset[str]:
    """Return the names of all environment variables that the runtime or a cluster reads."""
    plain = {
        setting.metadata["env"]
        for group in (Limits, EngineSettings, ServerSettings, ClusterSettings)
        for setting in fields(group)
    }
    prefixes = (PREFIX, *(f"{PREFIX}{mode.upper()}_" for mode in Mode))
    of_modes = {prefix + setting.metadata["env"] for prefix in prefixes for setting in fields(ModeSettings)}
    return frozenset({MODEL, *plain, *of_modes})


def unknown(env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the unknown environment variables that start with VOICEWRIGHT.

    Returns:
        Most similar known name, or None, by name of the unknown variable.
    """
    known = sorted(of_the_runtime() | OF_THE_STUDIO)
    short_names = [name.removeprefix(PREFIX) for name in known]
    suggestions: dict[str, str | None] = {}
    for name in sorted(set(env) - set(known)):
        if name.startswith(PREFIX) and not name.startswith(_OF_TESTS):
            near = get_close_matches(name.removeprefix(PREFIX), short_names, n=1, cutoff=0.7)
            suggestions[name] = PREFIX + near[0] if near else None
    return suggestions


def warn_of_unknown(env: Mapping[str, str]) -> None:
    """Log a warning for each environment variable with our prefix that is not a setting."""
    for name, near in unknown(env).items():
        hint = f"did you mean {near}?" if near else "docs/settings.md lists all settings."
        log.warning("%s is no setting and has no effect; %s", name, hint)
