"""Plots as numbers: where each bar and line goes. Templates draw them as SVG, with a table behind.

Readable without colour: each part of a stack has a pattern and stands in the same order as in the legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STEPS: Final = (1, 2, 5)
_LINES: Final = 5
_FILLED: Final = 0.84


@dataclass(frozen=True, slots=True)
class Rectangle:
    """One part of a bar."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class GridLine:
    """A line across the plot and the value it stands for."""

    y: float
    value: int


class Bars:
    """Stacked bars: for each of the `columns` so many of each name, the first name lowest.

    Widths are per cent of the plot's, heights are pixels: it is as wide as its place, and its text is not
    stretched.
    """

    def __init__(self, columns: Sequence[Sequence[int]], names: Sequence[str], *, height: int = 150) -> None:
        self.height = height
        most = max(1, max((sum(one) for one in columns), default=0))
        self._apart = round_step(most)
        self.top = -(-most // self._apart) * self._apart
        self._names = names
        self._columns = columns
        self._step = 100 / max(1, len(columns))

    @property
    def lines(self) -> list[GridLine]:
        """A few round values, equally far apart; the lowest is zero."""
        return [GridLine(self._y(value), value) for value in range(0, self.top + 1, self._apart)]

    @property
    def rectangles(self) -> list[Rectangle]:
        """What is not empty, column by column."""
        made = []
        for number, column in enumerate(self._columns):
            below = 0
            for name, value in zip(self._names, column, strict=True):
                if value > 0:
                    y = self._y(below + value)
                    height = max(1.0, self._y(below) - y)
                    made.append(
                        Rectangle(name, self.x(number), y, round(_FILLED * self._step, 2), round(height, 1))
                    )
                below += value
        return made

    def x(self, number: int) -> float:
        """Where a column begins, in per cent."""
        return round(number * self._step, 2)

    def _y(self, value: int) -> float:
        return round(self.height - self.height * value / self.top, 1)


def round_step(most: int) -> int:
    """The least round number of which so few as there are lines reach `most`."""
    size = 1
    while True:
        for step in _STEPS:
            if step * size * _LINES >= most:
                return step * size
        size *= 10


def sparkline(values: Sequence[int], width: float = 96, height: float = 20) -> str:
    """The points of a small line, the latest at the right."""
    most = max([1, *values])
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - 1 - (height - 2) * value / most:.1f}"
        for number, value in enumerate(values)
    )
