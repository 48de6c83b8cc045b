"""How log lines look: one JSON object a line off a terminal, readable text on one."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from redrive.core.redaction import printable

_LEVEL_NAMES = {"WARNING": "warn", "CRITICAL": "fatal"}
_COLOURS = {"warn": "33", "error": "31", "fatal": "31;1", "debug": "2"}


class JsonFormatter(logging.Formatter):
    """`level, message, …fields, timestamp` (ISO 8601, milliseconds, Z)."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"level": _level(record), "message": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        line["timestamp"] = timestamp(record.created)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """`12:00:00.000 warn  message  key=value …`, without control sequences from elsewhere."""

    def __init__(self, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        fields = " ".join(f"{key}={_short(value)}" for key, value in getattr(record, "fields", {}).items())
        shade = _COLOURS.get(level) if self._colour else None
        name = f"\x1b[{shade}m{level:<5}\x1b[0m" if shade else f"{level:<5}"
        line = f"{timestamp(record.created)[11:23]} {name} {printable(record.getMessage())}"
        if fields:
            line += f"  {fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logs(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send the `redrive` logger to a stream (standard error) as `json`, `text`, or by `auto`."""
    stream = stream or sys.stderr
    on_terminal = stream.isatty()
    chosen = style if style != "auto" else ("text" if on_terminal else "json")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if chosen == "json" else TextFormatter(on_terminal))
    logger = logging.getLogger("redrive")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def _level(record: logging.LogRecord) -> str:
    return _LEVEL_NAMES.get(record.levelname, record.levelname.lower())


def timestamp(at_s: float) -> str:
    """Seconds since the epoch as ISO 8601 with milliseconds and Z."""
    moment = datetime.fromtimestamp(at_s, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _short(value: object) -> str:
    text = printable(str(value)).replace("\n", " ")
    return f'"{text}"' if " " in text else text
