"""From figures to rows with a verdict, and from rows to a Markdown table or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

from bench.goals import AtLeast, AtMost, Below, Goal, Shown

_HEAD = ("figure", "goal", "ours", "against", "ratio", "verdict")


class Verdict(StrEnum):
    """What a run says of a goal. Not shown: something it needs was not measured."""

    REACHED = "reached"
    FLOOR_REACHED = "floor reached"
    NOT_REACHED = "not reached"
    NOT_SHOWN = "not shown"
    NO_GOAL = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A goal with what a run saw."""

    figure: str
    unit: str
    goal: str
    ours: float | None = None
    against: float | None = None
    ratio: float | None = None
    verdict: Verdict = Verdict.NOT_SHOWN


def judge(goal: Goal, figures: Mapping[str, float]) -> Row:
    """The row of a goal."""
    ours, aim = figures.get(goal.ours), goal.aim
    match aim:
        case Shown():
            verdict = Verdict.NOT_SHOWN if ours is None else Verdict.NO_GOAL
            return Row(goal.name, goal.unit, "", ours, verdict=verdict)
        case Below(limit=limit):
            return _compare(goal, f"< {limit:,g} {goal.unit}", ours, limit, 1.0)
        case AtMost(share=share, of=of):
            return _compare(goal, f"≤ {share:g} x", ours, _best(figures, of), share)
        case AtLeast(share=share, of=of, floor=floor):
            wanted = f"≥ {share:g} x" if floor is None else f"≥ {share:g} x, floor {floor:g} x"
            return _compare(goal, wanted, ours, _best(figures, of), share)
    assert_never(aim)


def _best(figures: Mapping[str, float], names: Sequence[str]) -> float | None:
    """The largest; None when one is missing, for that might have been the largest."""
    return max(figures[name] for name in names) if all(name in figures for name in names) else None


def _compare(goal: Goal, wanted: str, ours: float | None, against: float | None, share: float) -> Row:
    if ours is None or against is None:
        return Row(goal.name, goal.unit, wanted, ours, against)
    ratio = ours / against
    return Row(goal.name, goal.unit, wanted, ours, against, ratio, _verdict(goal, ratio, share))


def _verdict(goal: Goal, ratio: float, share: float) -> Verdict:
    if isinstance(goal.aim, AtLeast):
        floor = goal.aim.floor
        if ratio < share and floor is not None and ratio >= floor:
            return Verdict.FLOOR_REACHED
        return Verdict.REACHED if ratio >= share else Verdict.NOT_REACHED
    reached = ratio < share if isinstance(goal.aim, Below) else ratio <= share
    return Verdict.REACHED if reached else Verdict.NOT_REACHED


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
    return (row.figure, row.goal, ours, against, ratio, row.verdict.value)


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_digits(value)}{'' if unit.startswith('/') else ' '}{unit}"


def _digits(value: float) -> str:
    """Three digits that mean something, more only where they stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
