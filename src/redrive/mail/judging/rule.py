"""One row of the table: when it fits a reply, and what is done about it then.

Codes are written as `550`, `55x` or `5xx`, enhanced codes as `5.7.1`, `x.2.2`, `5.6.x` or `5.7.606-649`;
`none` is a reply without one. What a text says is asked elsewhere: a row only holds the phrases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from redrive.core.failure import Scope
from redrive.mail.judging.replies import Action, Reply, Severity, Stage

_CODE = re.compile(r"none|[245][0-9x][0-9x]")
_ENHANCED = re.compile(r"none|[245x]\.[0-9x]\.(?:x|\d{1,3}(?:-\d{1,3})?)")
_WORDED = ("says", "also", "unless")


@dataclass(frozen=True, slots=True)
class Rule:
    """A row. The conditions that are given must all hold; of each list, one entry is enough.

    `says` and `also` are two lists of which the text must say something, `unless` one of which nothing.
    """

    id: str
    action: Action
    scope: Scope
    why: str
    stages: tuple[Stage, ...] = ()
    names: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    severity: tuple[Severity, ...] = ()
    codes: tuple[str, ...] = ()
    enhanced: tuple[str, ...] = ()
    reused: bool | None = None
    says: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    retry_after_s: float | None = None
    alert: bool = False
    tries: int | None = None
    then: Action | None = None
    suppress: bool = False

    def worded(self) -> Mapping[str, tuple[str, ...]]:
        """The lists of phrases that this row has; `@name` stands for a list of words."""
        return {key: phrases for key in _WORDED if (phrases := getattr(self, key))}

    def fits(self, reply: Reply) -> bool:
        """Whether everything but the wording holds."""
        return (
            (not self.stages or reply.stage in self.stages)
            and (not self.names or reply.name in self.names)
            and (not self.providers or reply.provider in self.providers)
            and (not self.severity or reply.severity in self.severity)
            and (self.reused is None or reply.reused is self.reused)
            and (not self.codes or any(is_code(code, reply.code) for code in self.codes))
            and (not self.enhanced or any(is_enhanced(each, reply.enhanced) for each in self.enhanced))
        )


def check_code(pattern: str) -> str:
    """The pattern, or ValueError when no code can be like it."""
    if not _CODE.fullmatch(pattern):
        raise ValueError(f"{pattern!r} is not a code: write 550, 55x, 5xx or none")
    return pattern


def check_enhanced(pattern: str) -> str:
    """The pattern, or ValueError when no enhanced code can be like it."""
    if not _ENHANCED.fullmatch(pattern):
        raise ValueError(f"{pattern!r} is not an enhanced code: write 5.7.1, x.2.2, 5.7.606-649 or none")
    return pattern


def is_code(pattern: str, code: int | None) -> bool:
    """Whether a basic code is like the pattern."""
    if code is None or pattern == "none":
        return code is None and pattern == "none"
    return all(asked in ("x", digit) for asked, digit in zip(pattern, str(code), strict=False))


def is_enhanced(pattern: str, enhanced: str | None) -> bool:
    """Whether an enhanced code is like the pattern."""
    if enhanced is None or pattern == "none":
        return enhanced is None and pattern == "none"
    first, subject, details = _parts(pattern)
    found = enhanced.split(".")
    return first in ("x", found[0]) and subject in ("x", found[1]) and int(found[2]) in details


@cache
def _parts(pattern: str) -> tuple[str, str, range]:
    first, subject, detail = pattern.split(".")
    if detail == "x":
        return first, subject, range(1_000)
    low, _, high = detail.partition("-")
    return first, subject, range(int(low), int(high or low) + 1)
