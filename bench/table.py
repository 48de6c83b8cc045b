"""From figures to rows with a verdict, and from rows to a Markdown table or JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

from bench.goals import Above, AtLeast, AtMost, Below, Beside, Goal, Shown

Rounds = Mapping[str, Sequence[float]]
Judged = AtLeast | AtMost | Above | Below | Beside

_HEAD = ("figure", "goal", "ours", "against", "ratio", "of the rounds", "verdict")


class Verdict(StrEnum):
    """What a run says of a goal. Not shown: something it needs was not measured."""

    REACHED = "reached"
    FLOOR_REACHED = "floor reached"
    NOT_REACHED = "not reached"
    NOT_SHOWN = "not shown"
    NO_GOAL = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A goal with what a run saw: medians, their ratio, and the ratio of each round."""

    figure: str
    unit: str
    goal: str
    ours: float | None
    against: float | None = None
    ratio: float | None = None
    ratios: tuple[float, ...] = ()
    verdict: Verdict = Verdict.NOT_SHOWN


def judge(goal: Goal, rounds: Rounds) -> Row:
    """The row of a goal, from the figures of every round."""
    ours = rounds.get(goal.ours, ())
    if isinstance(goal.aim, Shown):
        verdict = Verdict.NO_GOAL if ours else Verdict.NOT_SHOWN
        return Row(goal.name, goal.unit, "", _median(ours), verdict=verdict)
    against = _against(goal.aim, rounds, len(ours))
    wanted = _wanted(goal.aim, goal.unit)
    mine, theirs = _median(ours), _median(against)
    if mine is None or theirs is None:
        return Row(goal.name, goal.unit, wanted, mine, theirs)
    ratio = mine / theirs
    # A figure of the first round only has no partner in the others.
    ratios = tuple(one / other for one, other in zip(ours, against, strict=False))
    return Row(goal.name, goal.unit, wanted, mine, theirs, ratio, ratios, _verdict(goal.aim, ratio))


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _against(aim: Judged, rounds: Rounds, count: int) -> Sequence[float]:
    """What ours is held against, round by round: the best of the peers, and none when one is missing."""
    if isinstance(aim, Above | Below):
        return [aim.limit] * max(1, count)
    names = (aim.other,) if isinstance(aim, Beside) else aim.of
    peers = [rounds.get(name, ()) for name in names]
    return max(peers, key=lambda values: _median(values) or 0.0) if all(peers) else ()


def _wanted(aim: Judged, unit: str) -> str:
    match aim:
        case Beside():
            return ""
        case Below(limit=limit, floor=floor):
            return f"< {_limit(limit, unit)}" + ("" if floor is None else f", floor {_limit(floor, unit)}")
        case Above(limit=limit):
            return f"≥ {_limit(limit, unit)}"
        case AtMost(share=share, floor=floor):
            return f"≤ {share:g} x" + ("" if floor is None else f", floor {floor:g} x")
        case AtLeast(share=share, floor=floor):
            return f"≥ {share:g} x" + ("" if floor is None else f", floor {floor:g} x")
    assert_never(aim)


def _limit(limit: float, unit: str) -> str:
    return f"{limit:,g}{'' if unit.startswith('/') else ' '}{unit}".rstrip()


def _verdict(aim: Judged, ratio: float) -> Verdict:
    match aim:
        case Beside():
            return Verdict.NO_GOAL
        case Below(limit=limit, floor=floor):
            reached, enough = ratio < 1, floor is not None and ratio * limit < floor
        case Above():
            reached, enough = ratio >= 1, False
        case AtMost(share=share, floor=floor):
            reached, enough = ratio <= share, floor is not None and ratio <= floor
        case AtLeast(share=share, floor=floor):
            reached, enough = ratio >= share, floor is not None and ratio >= floor
    if reached:
        return Verdict.REACHED
    return Verdict.FLOOR_REACHED if enough else Verdict.NOT_REACHED


def markdown(rows: Sequence[Row]) -> str:
    """The table, in columns that also read well on a terminal."""
    cells = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
    ]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows for JSON."""
    return [asdict(row) for row in rows]


def _cells(row: Row) -> tuple[str, ...]:
    ours, against = (_number(value, row.unit) for value in (row.ours, row.against))
    ratio = "" if row.ratio is None else _digits(row.ratio)
    spread = f"{_digits(min(row.ratios))} - {_digits(max(row.ratios))}" if len(row.ratios) > 1 else ""
    return (row.figure, row.goal, ours, against, ratio, spread, row.verdict.value)


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_digits(value)}{'' if unit.startswith('/') else ' '}{unit}"


def _digits(value: float) -> str:
    """Three digits that mean something, more only where they stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
