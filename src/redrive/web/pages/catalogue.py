"""Every text of the dashboard, in its languages, and how each writes numbers and times.

The texts stand in catalogue.toml. What the office and the store say (why a message waits, what is wrong with
a filter) is quoted as they say it, in English.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from redrive.core.values import instant

_SPANS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"))
_SOON_MS = 1_000
_WHOLE = 100


class Language(StrEnum):
    """The languages, by their codes."""

    ENGLISH = "en"
    PORTUGUESE = "pt"


_NAMES: Mapping[Language, str] = {Language.ENGLISH: "English", Language.PORTUGUESE: "Português"}


def preferred_language(chosen: str | None, accepted: str) -> Language:
    """What someone chose; otherwise the first of `Accept-Language` that we have; otherwise English."""
    if chosen is not None and chosen in _NAMES:
        return Language(chosen)
    for one in sorted(map(_weighed, accepted.split(",")[:20]), key=lambda pair: -pair[1]):
        if one[0] in _NAMES and one[1] > 0:
            return Language(one[0])
    return Language.ENGLISH


@cache
def read_catalogue() -> Mapping[str, Mapping[str, str]]:
    """Each text by its key, `page.text`, with what it is in each language."""
    document = tomllib.loads((files("redrive.web.pages") / "catalogue.toml").read_text("utf-8"))
    return {f"{room}.{name}": text for room, texts in document.items() for name, text in texts.items()}


class Texts:
    """The texts of one language, at one instant."""

    def __init__(self, language: Language, now: int) -> None:
        self._texts = read_catalogue()
        self.language = language
        self.now = now

    @property
    def languages(self) -> Mapping[Language, str]:
        return _NAMES

    def __call__(self, key: str, **values: Any) -> str:
        """A text with its values filled in; numbers are written as the language has it."""
        text = self._texts[key]
        one = text.get(f"{self.language}_one") if values.get("count") == 1 else None
        written = {
            name: self.number(value) if isinstance(value, int | float) else value
            for name, value in values.items()
        }
        return (one or text[self.language]).format(**written)

    def named(self, table: str, name: str) -> str:
        """What something is called here; a name that no text is for, as it is."""
        return self(f"{table}.{name}") if f"{table}.{name}" in self._texts else name

    def number(self, value: float | None) -> str:
        """1,234 or 1.234; a fraction has one digit, where it still says something."""
        if value is None:
            return "\u2013"
        whole = isinstance(value, int) or abs(value) >= _WHOLE
        text = f"{round(value):,}" if whole else f"{value:,.1f}"
        if self.language is Language.PORTUGUESE:
            return text.translate(str.maketrans(",.", ".,"))
        return text

    def share(self, value: float) -> str:
        """A part of one, in per cent."""
        return f"{self.number(round(100 * value))} %"

    def size(self, count: int) -> str:
        """So many bytes."""
        if count < 10_000:
            return f"{self.number(count)} B"
        if count < 10_000_000:
            return f"{self.number(count // 1_000)} kB"
        return f"{self.number(count // 1_000_000)} MB"

    def span(self, milliseconds: float) -> str:
        """A stretch of time in its largest unit: 3 min."""
        for size, name in _SPANS:
            if milliseconds >= size:
                return self(f"time.{name}", count=int(milliseconds // size))
        return self("time.milliseconds", count=int(milliseconds))

    def between(self, earlier: str | int, later: str | int) -> str:
        """How long it was from one instant to another."""
        return self.span(max(0, milliseconds(later) - milliseconds(earlier)))

    def ago(self, at: str | int) -> str:
        """How long ago an instant was, or in how long it will be."""
        distance = self.now - milliseconds(at)
        if abs(distance) < _SOON_MS:
            return self("time.now")
        return self("time.ago" if distance > 0 else "time.ahead", span=self.span(abs(distance)))

    def instant(self, at: int) -> str:
        """An instant as documents write it."""
        return instant(at)

    def exact(self, at: str | int) -> str:
        """An instant in full, in UTC."""
        moment = datetime.fromtimestamp(milliseconds(at) / 1000, UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def milliseconds(at: str | int) -> int:
    """An instant as the store counts it, of a document's text or of the number itself."""
    return at if isinstance(at, int) else round(datetime.fromisoformat(at).timestamp() * 1000)


def _weighed(text: str) -> tuple[str, float]:
    name, _, weight = text.partition(";")
    try:
        number = float(weight.strip().removeprefix("q=") or 1)
    except ValueError:
        number = 0.0
    return name.strip().lower().partition("-")[0], number
