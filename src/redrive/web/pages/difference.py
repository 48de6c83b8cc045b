"""What changes from one text to another, line by line, with the lines around it.

Comparing is quadratic at worst, so it is bounded: what lies between the first and the last change is compared
when that is not too much, and otherwise shown as one change. Very many lines are cut, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice, takewhile
from typing import Final

_COMPARED: Final = 1_000
_SHOWN: Final = 2_000
_TOGETHER: Final = 900
_LENGTH: Final = 2_000
_AROUND: Final = 3

Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class TextDifference:
    """Lines, each `gone`, `new` or neither, and how many that changed are left out."""

    lines: tuple[tuple[str, str], ...]
    left_out: int


def difference(before: str, after: str) -> TextDifference:
    """The changed lines of two texts, and some around each."""
    old, new = before.splitlines(), after.splitlines()
    opcodes = _opcodes(old, new)
    lines = tuple(islice(_lines(old, new, opcodes), _SHOWN))
    changed = sum(i2 - i1 + j2 - j1 for kind, i1, i2, j1, j2 in opcodes if kind != "equal")
    shown = sum(tone != "" for tone, _ in lines)
    return TextDifference(lines, changed - shown)


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """How one becomes the other, in the words of difflib."""
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    ends = len(old) - tail, len(new) - tail
    middle = old[head : ends[0]], new[head : ends[1]]
    if max(map(len, middle)) > _COMPARED:
        inner: list[Opcode] = [("replace", head, ends[0], head, ends[1])]
    else:
        inner = [
            (kind, i1 + head, i2 + head, j1 + head, j2 + head)
            for kind, i1, i2, j1, j2 in SequenceMatcher(None, *middle).get_opcodes()
        ]
    before: Opcode = ("equal", 0, head, 0, head)
    after: Opcode = ("equal", ends[0], len(old), ends[1], len(new))
    return [before, *inner, after]


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _lines(old: Sequence[str], new: Sequence[str], opcodes: Sequence[Opcode]) -> Iterator[tuple[str, str]]:
    for number, (kind, i1, i2, j1, j2) in enumerate(opcodes):
        if kind == "equal":
            yield from _around(old[i1:i2], first=number == 0, last=number == len(opcodes) - 1)
            continue
        yield from (("gone", f"- {line[:_LENGTH]}") for line in old[i1:i2][:_TOGETHER])
        yield from (("new", f"+ {line[:_LENGTH]}") for line in new[j1:j2][:_TOGETHER])


def _around(lines: Sequence[str], *, first: bool, last: bool) -> Iterator[tuple[str, str]]:
    """Of unchanged lines those next to a change."""
    head = 0 if first else min(_AROUND, len(lines))
    tail = 0 if last else min(_AROUND, len(lines) - head)
    gap = len(lines) - head - tail
    kept = [*lines[:head], *(["…"] if gap else []), *lines[len(lines) - tail :]]
    yield from (("", f"  {line[:_LENGTH]}") for line in kept)
