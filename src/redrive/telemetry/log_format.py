"""How log lines look: one JSON object a line off a terminal, readable text on one."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import msgspec

from redrive.core.errors import ConfigurationError
from redrive.core.redaction import printable, redact

_LEVEL_NAMES = {"WARNING": "warn", "CRITICAL": "fatal"}
_LEVELS = ("debug", "info", "warning", "error")
_STYLES = ("json", "text", "auto")
_COLOURS = {"warn": "33", "error": "31", "fatal": "31;1", "debug": "2"}


class JsonFormatter(logging.Formatter):
    """`level, message, …fields, timestamp` (ISO 8601, milliseconds, Z)."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"level": _level(record), "message": _summary(record)}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = _masked(self.formatException(record.exc_info))
        line["timestamp"] = timestamp(record.created)
        try:
            # JSON escapes what is below a space; what is above ~ could still reach a terminal.
            return printable(msgspec.json.encode(line, enc_hook=str).decode())
        except (TypeError, ValueError):  # a lone surrogate, or a key that is no text
            return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`12:00:00.000 warn  message  key=value …`, without control sequences from elsewhere."""

    def __init__(self, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        fields = pairs(getattr(record, "fields", {}))
        shade = _COLOURS.get(level) if self._colour else None
        name = f"\x1b[{shade}m{level:<5}\x1b[0m" if shade else f"{level:<5}"
        line = f"{timestamp(record.created)[11:23]} {name} {printable(_summary(record))}"
        if fields:
            line += f"  {fields}"
        if record.exc_info:
            line += "\n" + _masked(self.formatException(record.exc_info))
        return line


def configure_logs(level: str = "info", style: str = "json", stream: TextIO | None = None) -> None:
    """Send the `redrive` logger to a stream (standard error) as `json`, `text`, or by `auto`.

    `auto` is text on a terminal and JSON elsewhere. The levels are debug, info, warning and error.
    """
    if level.lower() not in _LEVELS:
        raise ConfigurationError(f"the log level {level!r} is not known: use one of {', '.join(_LEVELS)}")
    if style not in _STYLES:
        raise ConfigurationError(f"the log format {style!r} is not known: use one of {', '.join(_STYLES)}")
    stream = stream or sys.stderr
    on_terminal = stream.isatty()
    chosen = style if style != "auto" else ("text" if on_terminal else "json")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if chosen == "json" else TextFormatter(on_terminal))
    logger = logging.getLogger("redrive")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def pairs(fields: Mapping[str, Any]) -> str:
    """Names and values on one line, without control sequences."""
    return " ".join(f"{name}={_short(value)}" for name, value in fields.items())


def _summary(record: logging.LogRecord) -> str:
    """Its text without the fields, which our formats write themselves."""
    return str(getattr(record, "summary", None) or record.getMessage())


def _masked(traceback: str) -> str:
    """Without secrets and control sequences: its texts may be from anywhere."""
    return redact(printable(traceback))


def _level(record: logging.LogRecord) -> str:
    return _LEVEL_NAMES.get(record.levelname, record.levelname.lower())


def timestamp(at_s: float) -> str:
    """Seconds since the epoch as ISO 8601 with milliseconds and Z."""
    second, milliseconds = divmod(int(at_s * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=8)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _short(value: object) -> str:
    text = printable(str(value)).replace("\n", " ")
    return f'"{text}"' if " " in text else text
