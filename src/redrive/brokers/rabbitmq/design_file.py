"""A team's topology, read from TOML: `[exchanges]`, `[defaults]` and a table for each queue.

A mistake is reported with the file, the line of its table, the key, and what to write instead. Known
weakness: the line is that of the table, since the standard library's TOML has no positions.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import msgspec

from redrive.brokers.rabbitmq.design import QueueDesign, RetryMode, TopologyDesign
from redrive.brokers.rabbitmq.topology import DeclaredExchange, ExchangeType, QueueType
from redrive.core.errors import ConfigurationError

_SECTIONS = ("exchanges", "defaults", "queues")
_KEYS = tuple(name for name in QueueDesign.__struct_fields__ if name != "name")
_EXAMPLES = {
    "type": f"one of {', '.join(QueueType)}",
    "retry": f"one of {', '.join(RetryMode)}",
    "bindings": 'an exchange with its keys, such as events = ["orders.*"]',
    "retry_ttl_s": "15",
    "steps_s": "[1, 2, 4, 8]",
    "message_ttl_s": "3600",
    "delivery_limit": "20",
}
T = TypeVar("T")


def read_design(path: Path) -> TopologyDesign:
    """The topology that a file describes, or ConfigurationError."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text: save it as such") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; name another file") from error
    return parse_design(text, str(path))


def parse_design(text: str, origin: str) -> TopologyDesign:
    """The same of a text; `origin` names it in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{origin} is not TOML: {error}") from None
    place = _Place(text, origin)
    _refuse_unknown(document, _SECTIONS, place.of())
    defaults = _table(document, "defaults", place.of("defaults"))
    _refuse_unknown(defaults, tuple(key for key in _KEYS if key != "bindings"), place.of("defaults"))
    exchanges = tuple(
        _exchange(name, kind, place.of("exchanges"))
        for name, kind in _table(document, "exchanges", place.of("exchanges")).items()
    )
    queues = tuple(
        _queue(name, table, defaults, place.of("queues", name))
        for name, table in _table(document, "queues", place.of("queues")).items()
    )
    if not queues:
        raise ConfigurationError(f'{origin} has no queue: write [queues."q.validator"] and its keys below it')
    return _placed(place.of(), lambda: TopologyDesign(exchanges, queues))


class _Place:
    """Where in a text a table stands, in words that begin an error."""

    def __init__(self, text: str, origin: str) -> None:
        self._lines, self._origin = text.splitlines(), origin

    def of(self, *keys: str) -> str:
        """The file, the line of the table, and its name."""
        if not keys:
            return self._origin
        shown = ".".join(
            key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys
        )
        number = next((n for n, line in enumerate(self._lines, 1) if self._begins(line, keys)), None)
        return f"{self._origin}{'' if number is None else f', line {number}'}: [{shown}]"

    @staticmethod
    def _begins(line: str, keys: tuple[str, ...]) -> bool:
        parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in keys)
        inline = rf"|^\s*[\"']?{re.escape(keys[-1])}[\"']?\s*=" if len(keys) > 1 else ""
        return re.search(rf"^\s*\[\s*{parts}(\s*\.\s*bindings)?\s*\]{inline}", line) is not None


def _table(document: Mapping[str, object], key: str, place: str) -> dict[str, object]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f"{place} is not a table: write [{key}], its keys below it")
    return found


def _exchange(name: str, kind: object, place: str) -> DeclaredExchange:
    try:
        return DeclaredExchange(name, ExchangeType(str(kind)).value)
    except ValueError:
        raise ConfigurationError(
            f"{place} {name} has the type {kind!r}: write one of {', '.join(ExchangeType)}"
        ) from None


def _queue(name: str, table: object, defaults: Mapping[str, object], place: str) -> QueueDesign:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{place} is not a table: its keys are {', '.join(_KEYS)}")
    _refuse_unknown(table, _KEYS, place)
    given = {**defaults, **table, "name": name}
    return _placed(place, lambda: msgspec.convert(given, QueueDesign))


def _placed(place: str, make: Callable[[], T]) -> T:
    """What is made, or an error that begins with the place."""
    try:
        return make()
    except msgspec.ValidationError as error:
        cause = error.__cause__
        problem = cause if isinstance(cause, ConfigurationError) else _in_our_words(str(error))
        raise ConfigurationError(f"{place}: {problem}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def _in_our_words(problem: str) -> str:
    """msgspec says what, then where as `$.key`."""
    what, _, where = problem.partition(" - at `")
    key = where.removeprefix("$.").removesuffix("`")
    example = _EXAMPLES.get(key.partition("[")[0])
    advice = "" if example is None else f": write {example}"
    return f"{key}: {what}{advice}" if key else what


def _refuse_unknown(table: Mapping[str, object], known: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
            raise ConfigurationError(f"{place} has the unknown key {key!r}: {advice}")
