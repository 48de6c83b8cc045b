"""Plays a page's console blocks: each command is run, and what it answers must be what the page shows.

Ids and names of archives stand for those of this run: they are learned from the answers, in order, and put
into the commands that follow. Ages, instants, sizes, names of machines and paths may differ; counts and words
may not, but in lines that begin with a word of `loose`. A line `…` stands for any lines, one that ends with
it for any end. A line `# …` is something that happens outside, done by the test.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Run = Callable[[str], Awaitable[str]]

_ID = re.compile(
    r"letters-[\w-]+\.jsonl\.gz|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{12,64}\b"
)
_NUMBER = re.compile(r"\b\d[\d,]*\b")
_DIFFERS = (
    (re.compile(r"\S+/ID\b"), "FILE"),
    (re.compile(r"redis://127\.0\.0\.1:\d+/0|sqlite:///\S+"), "STORE"),
    (re.compile(r"[\w.-]+@[\w.-]+ \(\w+\)"), "WHO"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?|\d\d:\d\d:\d\d\.\d{3}"), "WHEN"),
    (re.compile(r"\d[\d.,]* (?:bytes|[kMGT]?B)\b"), "SIZE"),
    (re.compile(r"(?:\bin )?\b\d[\d.]* ?(?:ms|s|min|m|h|d)\b(?! ?/)"), "AGE"),
    (re.compile(r"[·▁▂▃▄▅▆▇█]{2,}"), "TREND"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Shown:
    """A command and the lines that the page shows below it."""

    command: str
    lines: tuple[str, ...]


def scenarios(page: Path) -> dict[str, list[Shown]]:
    """What each section of a page shows, by its heading."""
    sections = re.split(r"^## (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = {heading: list(_shown(text)) for heading, text in zip(sections[::2], sections[1::2], strict=True)}
    return {heading: shown for heading, shown in found.items() if shown}


def _shown(text: str) -> Iterator[Shown]:
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^(?=[$#] )", block, flags=re.MULTILINE):
            first, *lines = part.rstrip().splitlines() or [""]
            if first:
                yield Shown(first, tuple(lines))


@dataclass
class Player:
    """Runs what a section shows, and learns which id of the page is which of this run."""

    run: Run
    outside: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    loose: tuple[str, ...] = ()
    ids: dict[str, str] = field(default_factory=dict)

    async def play(self, shown: list[Shown]) -> None:
        for one in shown:
            if one.command.startswith("# "):
                await self.outside[one.command.removeprefix("# ")]()
                continue
            command = _ID.sub(lambda match: self.ids.get(match[0], match[0]), one.command.removeprefix("$ "))
            self._compare(one, await self.run(command))

    def _compare(self, shown: Shown, answer: str) -> None:
        actual = [line for line in answer.splitlines() if line.strip()]
        told = f"{shown.command}\nanswered:\n{answer}"
        place, anywhere = 0, False
        for line in shown.lines:
            if line.strip() in ("", "…"):
                anywhere = anywhere or line.strip() == "…"
                continue
            while anywhere and place < len(actual) and not self._fits(line, actual[place]):
                place += 1
            assert place < len(actual), f"{told}\nnever:\n{line}"
            assert self._fits(line, actual[place]), f"{told}\ninstead of:\n{line}\nwas:\n{actual[place]}"
            self._learn(line, actual[place])
            place, anywhere = place + 1, False
        assert anywhere or place == len(actual), f"{told}\nthe page does not show:\n{actual[place]}"

    def _fits(self, line: str, actual: str) -> bool:
        known = all(self.ids.get(one, other) == other for one, other in _pairs(line, actual))
        shown, told = self._plain(line), self._plain(actual)
        return known and (told.startswith(shown[:-1].rstrip()) if shown.endswith("…") else told == shown)

    def _learn(self, line: str, actual: str) -> None:
        self.ids |= dict(_pairs(line, actual))

    def _plain(self, line: str) -> str:
        line = _plain(line)
        return _NUMBER.sub("N", line) if self.loose and line.startswith(self.loose) else line


def _pairs(line: str, actual: str) -> list[tuple[str, str]]:
    return list(zip(_ID.findall(line), _ID.findall(actual), strict=False))


def _plain(line: str) -> str:
    line = _ID.sub("ID", line)
    for pattern, word in _DIFFERS:
        line = pattern.sub(word, line)
    return line.strip()
