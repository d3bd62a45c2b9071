"""Log formats (text or JSON lines), and the log line of each finished request."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from runtime.errors import Failed
from runtime.request import Broken, Finished, Mode
from runtime.settings import ServerSettings
from runtime.shared.repeated_lines import limit_repeated_lines

log = logging.getLogger(__name__)

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(slots=True, kw_only=True)
class RequestLog:
    """Data about one request that are needed for its log line and its metrics."""

    id: str  # Id of the HTTP request, or id of the session with the number of the utterance.
    dialect: str
    mode: Mode
    chars: int = 0
    text: str | None = None  # Text to speak, or None if texts are not logged.
    is_cancelled: bool = False  # True if the request was cancelled. In this case, a failure is not logged as an error.

    def append_text(self, text: str) -> None:
        """Count the characters of streamed text, and store the text if texts are logged."""
        self.chars += len(text)
        if self.text is not None:
            self.text += text


def configure_logging(settings: ServerSettings) -> None:
    """Set the format of all log handlers of this process, and suppress repeated lines."""
    formatter = JsonLines() if settings.log_format == "json" else TextLines(_TEXT)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)
    limit_repeated_lines()


def log_end(request_log: RequestLog, event: Finished | Broken) -> None:
    """Log one line with the outcome and the statistics of an ended request."""
    # The import is not at the top of the file, because the engine process also imports this file, but not pydantic.
    from runtime.server.descriptions import metrics

    error = event.error if isinstance(event, Broken) else None
    figures: dict[str, Any] = {
        "request": request_log.id,
        "dialect": request_log.dialect,
        "mode": request_log.mode.value,
        "chars": request_log.chars,
        "stop": "error" if isinstance(event, Broken) else event.stop_reason.value,
        "code": error.code if error else None,
        **metrics(event.stats),
    }
    if request_log.text is not None:
        figures["text"] = request_log.text
    is_our_fault = isinstance(error, Failed) and not request_log.is_cancelled
    level = logging.ERROR if is_our_fault else logging.INFO
    log.log(level, "request ended", extra={"figures": figures})


class JsonLines(logging.Formatter):
    """Log formatter that writes each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "figures", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Log formatter that appends name=value pairs to the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        figures: dict[str, Any] = getattr(record, "figures", {})
        fields = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in figures.items()]
        return " ".join([super().formatMessage(record), *fields])
