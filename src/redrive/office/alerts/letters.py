"""Notices of single dead letters, for channels that ask for them: all of a minute in one.

How far they were told and the notice are one record. A letter is told by id, queue, tenant, reason and code,
never by its payload. Known weakness: a letter that is committed more than five seconds after its instant of
death is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from redrive.office.alerts import records
from redrive.office.alerts.records import LETTERS, Alert, NoticeKind
from redrive.office.filters import Filter
from redrive.office.filters.terms import Comparison, Dated, MomentField
from redrive.office.index import Found

if TYPE_CHECKING:
    from redrive.office.office import Office

_EVERY_MS = 60_000
_SETTLED_MS = 5_000
_NAMED = 20


class LetterNotices:
    """Follows all deaths of a store, a minute at a time."""

    def __init__(self, office: Office) -> None:
        self._store = office.store
        self._index = office.index
        self._channels = office.alerting.settings.letter_channels()

    async def look(self) -> None:
        """Keep a notice of what died since the last one, once a minute is full."""
        if not self._channels:
            return
        alert, version = await records.read_alert(self._store, LETTERS, "")
        until_at = self._store.now() - _SETTLED_MS
        if not alert.until_at:
            await records.write_alert(self._store, replace(alert, until_at=until_at), version)
            return
        if until_at - alert.until_at < _EVERY_MS or (await self._index.catch_up()).behind:
            return
        changed = await self._told(alert, until_at)
        await records.write_alert(self._store, replace(changed, until_at=until_at), version)

    async def _told(self, alert: Alert, until_at: int) -> Alert:
        """With a notice of what died since, if anything did."""
        died = Filter(
            (
                Dated(MomentField.MOVED, Comparison.AT_LEAST, alert.until_at),
                Dated(MomentField.MOVED, Comparison.LESS, until_at),
            )
        )
        count = await self._index.count(died)
        if not count:
            return alert
        found = (await self._index.find(died, limit=_NAMED)).letters
        lines = [f"{count:,} new dead letter{'' if count == 1 else 's'}", *map(_line, found)]
        if count > len(found):
            lines.append(f"and {count - len(found):,} more: redrive dlq list --newest")
        source = (await self._store.describe()).url
        told = replace(alert, channels=self._channels, text="\n".join(lines), value=count)
        return told.with_notice(records.notice_of(told, NoticeKind.LETTERS, source, until_at))


def _line(letter: Found) -> str:
    code = f" [{letter.code}]" if letter.code else ""
    return f"{letter.id} {letter.queue} {letter.tenant} {letter.reason}{code}"
