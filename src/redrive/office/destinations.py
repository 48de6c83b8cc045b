"""Where mail did not arrive: dead letters by the domain that they were for, and code.

Looks into the payloads, the newest letters first, for as long as a page may take; it says how far it came.
Answers only what its asker could see in the letters: where the address itself is masked, nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import apsw
import msgspec

from redrive.core.redaction import MASKED, redact
from redrive.machine.statements import load_sections
from redrive.office.documents.destinations import DestinationList, destination_list
from redrive.office.documents.letters import empty_document
from redrive.office.filters import Condition
from redrive.office.filters.masked import unsearched
from redrive.office.index import Index
from redrive.office.index.find import pieces
from redrive.office.letters import Letters
from redrive.office.view import OfficeAnswer, View

_SQL = load_sections("redrive.office", "statements/find.sql")
_BUDGET_S: Final = 0.3
_LOOKED: Final = 100


class _Addressed(msgspec.Struct):
    """What of a mail's payload is looked at."""

    to: Sequence[str] | str = ()


@dataclass(frozen=True, slots=True)
class DestinationCount:
    """So many letters for a domain (empty: none can be told) died with a code (empty: without one)."""

    domain: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class DestinationTable:
    """The most first; `looked` at the newest of all letters, `whole` when these are all.

    `masked`: nothing is told, since addresses are masked.
    """

    rows: Sequence[DestinationCount]
    looked: int
    whole: bool
    masked: bool = False


_HIDDEN: Final = DestinationTable((), 0, whole=True, masked=True)
_decoder = msgspec.json.Decoder(_Addressed)


class Destinations:
    """The verb, for one actor."""

    def __init__(self, index: Index, view: View, letters: Letters) -> None:
        self._index = index
        self._view = view
        self._letters = letters

    async def count(
        self,
        text: str = "",
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        budget_s: float = _BUDGET_S,
    ) -> OfficeAnswer[DestinationTable, DestinationList]:
        """The letters meant, of a queue of mails; the document has the first `limit` rows."""
        asked = await self._letters.filter(text, queue, tenant)
        if self._view.hides("to"):
            found, empty = _HIDDEN, None
        else:
            condition = self._index.compile(asked, self._view.scope)
            found = await self._index.read(lambda db: _count(db, condition, budget_s))
            empty = await self._letters.explain(asked, found.looked)
        document = destination_list(
            found,
            limit,
            behind=self._letters.freshness.behind,
            notice=unsearched(asked),
            empty=empty_document(empty),
        )
        return OfficeAnswer(found, document)


def _count(db: apsw.Connection, condition: Condition, budget_s: float) -> DestinationTable:
    ends_s = time.monotonic() + budget_s
    counts: Counter[tuple[str, str]] = Counter()
    looked, whole = 0, True
    statement = _SQL["payloads"].format(**pieces(condition))
    for code, body in db.execute(statement, condition.bindings):
        if looked % _LOOKED == 0 and looked and time.monotonic() > ends_s:
            whole = False
            break
        looked += 1
        counts[_domain(body), str(code)] += 1
    most = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
    rows = [DestinationCount(domain, code, count) for (domain, code), count in most]
    return DestinationTable(rows, looked, whole)


def _domain(body: object) -> str:
    """The domain of the first recipient, as a masked address shows it; empty where that shows none."""
    try:
        to = _decoder.decode(body if isinstance(body, bytes | str) else b"").to
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    first = to if isinstance(to, str) else (to[0] if to else "")
    _, at, domain = redact(first).rpartition("@")
    return domain.strip("> ").lower() if at and MASKED not in domain else ""
