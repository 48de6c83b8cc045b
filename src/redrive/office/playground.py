"""The mark of a playground: a store whose mails may end in the simulator, because nothing real is in it.

`redrive up` marks a store in which nothing has ever happened, and uses marked ones alone. Sending through a
relay takes the mark away: from then on mails in this store may be meant for somebody.
Known weakness: whoever hands in real mails while a store is marked has them sent to the simulator.
"""

from __future__ import annotations

from contextlib import suppress

from redrive.core.errors import VersionConflict
from redrive.core.store import WORKER_RECORDS
from redrive.office.chain import head_of
from redrive.office.ports import Switchboard

_KIND = "playground"
_ID = "simulator"


async def may_play(store: Switchboard) -> bool:
    """Whether the simulator may have the mails of an open store; one without any history is marked."""
    if await store.get_record(_KIND, _ID) is not None:
        return True
    if not await _is_untouched(store):
        return False
    with suppress(VersionConflict):
        await store.put_record(_KIND, _ID, {"markedAt": store.now()}, expected=0)
    return True


async def end_playground(store: Switchboard) -> None:
    """Take the mark away, where there is one."""
    await store.delete_record(_KIND, _ID, expected=None)


async def _is_untouched(store: Switchboard) -> bool:
    """No queue, no row in the audit (so no key either), and no worker: somebody's store has one of them."""
    if await store.queue_names() or (await head_of(store)).position:
        return False
    return not await store.list_records(WORKER_RECORDS, limit=1)
