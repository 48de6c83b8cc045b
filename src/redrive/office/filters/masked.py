"""No guesses at what is masked: filters of people who see letters with masks.

Whoever could ask `payload.password:hunter2` and count the answers would not need to see it. A path under a
masked name is refused, and so is a value that would itself be masked: what a letter shows may be asked for,
what it hides may not. Failures and text are handled where conditions are made. Known weakness: that a payload
has something at a path that is not masked by its name can be seen even where its value is.
"""

from __future__ import annotations

import re
from dataclasses import replace

from redrive.core.errors import RedriveError
from redrive.core.redaction import redact
from redrive.office.filters.terms import Comparison, Filter, InPayload, Text
from redrive.office.masking import Mask

# A number between others of this size could be found by halving: a card number, digit by digit.
_LIKE_CARDS = re.compile(r"[2-6]\d{12,}", re.ASCII)

UNSEARCHED = "text was looked for in failures only: payloads are masked for you, and not searched for it"


class MaskedValue(RedriveError):
    """A filter that asks about what is masked for whoever asks it."""

    def __init__(self, term: InPayload) -> None:
        path = ".".join(("payload", *term.path))
        super().__init__(f"{path[:80]}: this is masked for you: ask someone who may reveal payloads")


def masked_filter(asked: Filter, mask: Mask) -> Filter:
    """The filter for someone who sees letters with masks, or MaskedValue."""
    for term in asked.leaves:
        if isinstance(term, InPayload) and _guesses(term, mask):
            raise MaskedValue(term)
    return replace(asked, masked=True)


def unsearched(asked: Filter) -> str | None:
    """What to say of an answer for which less was searched than the filter says."""
    less = asked.masked and any(isinstance(term, Text) for term in asked.leaves)
    return UNSEARCHED if less else None


def _guesses(term: InPayload, mask: Mask) -> bool:
    if any(map(mask.hides, term.path)):
        return True
    values = [value.text for value in term.values]
    if term.comparison is not Comparison.EQUAL:
        return any(_LIKE_CARDS.match(value) for value in values)
    return any(redact(value) != value for value in values)
