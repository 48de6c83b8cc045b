"""What could stand where a filter's last word begins: names of fields, and values that letters have.

Answers only what its asker could find out by asking: within the scope, and nothing that a mask would change.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

import apsw

from redrive.core.redaction import redact
from redrive.core.verdict import Reason
from redrive.machine.statements import load_sections
from redrive.office.filters import Condition, Filter
from redrive.office.filters.names import AGE, REASON, MomentField, NameField, NumberField, field_name
from redrive.office.filters.values import plain
from redrive.office.index import Index, TimeLimit
from redrive.office.view import View

_MOST: Final = 12
_LOOKED: Final = 500
_TIME_S: Final = 0.3
_LAST_WORD: Final = re.compile(r"(?:^|(?<=[\s(]))-?([^\s()\"]*)$")
_FIELDS: Final = (*NameField, REASON, *NumberField, AGE, *MomentField)
_LISTED: Final = frozenset((NameField.QUEUE, NameField.TENANT, NameField.CODE, NameField.KIND))
_SAMPLES: Final = {
    REASON: tuple(plain(one.value) for one in Reason),
    AGE: ("<15m", "<1h", "<1d", ">1d", ">7d"),
    NumberField.ATTEMPTS.value: ("1", ">3"),
    NumberField.REDRIVEN.value: ("0", ">0"),
    MomentField.DIED.value: ("today", "yesterday"),
}
_SQL = load_sections("redrive.office", "statements/find.sql")


class Suggestions:
    """Suggestions for one actor."""

    def __init__(self, index: Index, view: View) -> None:
        self._index = index
        self._view = view

    async def find(self, text: str) -> list[str]:
        """The whole text with its last word completed, the most likely first."""
        match = _LAST_WORD.search(text)
        if match is None:
            return []
        before, word = text[: match.start(1)], match[1]
        name, colon, value = word.partition(":")
        if not colon:
            return [f"{before}{one}:" for one in _FIELDS if one.startswith(name.lower())][:_MOST]
        field = field_name(name)
        values = [] if field is None else await self._values(field)
        near = [one for one in values if value.lower() in one.lower()]
        near.sort(key=lambda one: not one.lower().startswith(value.lower()))
        return [f"{before}{name}:{one}" for one in near[:_MOST]]

    async def _values(self, field: str) -> list[str]:
        if field not in _LISTED:
            return list(_SAMPLES.get(field, ()))
        condition = self._index.compile(Filter(), self._view.scope)
        with suppress(TimeLimit):
            return await self._index.read(lambda db: _most_frequent(db, field, condition), _TIME_S)
        return []


def _most_frequent(db: apsw.Connection, field: str, condition: Condition) -> list[str]:
    statement = _SQL["values"].format(column=field, narrow=condition.narrow)
    rows = db.execute(statement, {**condition.bindings, "size": _LOOKED})
    return [plain(value) for value, _ in rows if value and redact(value) == value]
