"""Plots: round values at the lines, as high as it needs to be and not much higher."""

from __future__ import annotations

import pytest

from redrive.web.pages.plots import Bars


@pytest.mark.parametrize(
    ("most", "values"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (12, [0, 5, 10, 15]),
        (230, [0, 50, 100, 150, 200, 250]),
        (440, [0, 100, 200, 300, 400, 500]),
        (1_001, [0, 500, 1_000, 1_500]),
    ],
)
def test_the_lines_stand_at_round_values(most: int, values: list[int]) -> None:
    assert [line.value for line in Bars([[most]], ("done",)).lines] == values


@pytest.mark.parametrize("most", [*range(1, 300), 999, 12_345, 10**9 + 1])
def test_the_highest_bar_fits_and_fills_more_than_half(most: int) -> None:
    bars = Bars([[most], [0]], ("done",), height=150)
    (one,) = bars.rectangles
    assert most <= bars.top < 2 * most or most == bars.top == 1
    assert 2 <= len(bars.lines) <= 6
    assert one.y >= 0
