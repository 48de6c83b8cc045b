"""The one error of the filter language."""

from __future__ import annotations

from redrive.core.errors import RedriveError


class FilterError(RedriveError):
    """A filter that cannot be read: where (counted from 0), what is wrong, what to do."""

    def __init__(self, position: int, problem: str, advice: str) -> None:
        self.position, self.problem, self.advice = position, problem, advice
        super().__init__(f"filter, character {position + 1}: {problem}: {advice}")
