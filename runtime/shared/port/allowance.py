"""Carries for which account a request is, and how much speech a day that may have; the studio tells the runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

ACCOUNT, SECONDS, KEY = HEADERS = ("x-speech-account", "x-speech-seconds", "x-speech-account-key")
_MAX_ACCOUNT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Allowance:
    """``account`` is any word that stands for the visitor; ``seconds`` of speech a day, None: as many as it likes."""

    account: str
    seconds: float | None = None

    def headers(self) -> dict[str, str]:
        return {ACCOUNT: self.account} | ({} if self.seconds is None else {SECONDS: f"{self.seconds:g}"})


def allowance_of(headers: Mapping[str, str]) -> Allowance | None:
    """What a request carries; None: no account is named."""
    account = headers.get(ACCOUNT, "")[:_MAX_ACCOUNT_CHARS]
    try:
        seconds = float(headers.get(SECONDS, ""))
    except ValueError:
        seconds = math.inf
    return Allowance(account, seconds if math.isfinite(seconds) else None) if account else None
