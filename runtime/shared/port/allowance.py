"""Carries how much speech an account may have made in a day, which the studio tells the runtime with each request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

ACCOUNT, SECONDS = HEADERS = ("x-speech-account", "x-speech-seconds")
_MAX_ACCOUNT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Allowance:
    """``account`` is any word that stands for the visitor."""

    account: str
    seconds: float

    def headers(self) -> dict[str, str]:
        return {ACCOUNT: self.account, SECONDS: f"{self.seconds:g}"}


def allowance_of(headers: Mapping[str, str]) -> Allowance | None:
    """What a request carries; None: as much as it likes."""
    account = headers.get(ACCOUNT, "")[:_MAX_ACCOUNT_CHARS]
    try:
        seconds = float(headers.get(SECONDS, ""))
    except ValueError:
        return None
    return Allowance(account, seconds) if account and math.isfinite(seconds) else None
