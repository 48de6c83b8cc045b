"""What `redrive doctor` looks at beside the store itself: folders with mails, and who may send as whom."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from redrive.cli.mailbox import mailbox_folder
from redrive.cli.session import operator
from redrive.config import Settings
from redrive.core.condition import Finding, Grade
from redrive.core.ports import Store
from redrive.machine.private import wider
from redrive.mail.stored import QUEUE
from redrive.office.access import Access, Role

_LOOKED_AT = 10_000
_NAMED = 3


async def sender_findings(store: Store, settings: Settings) -> list[Finding]:
    """Whether tenants can send as one another; nothing where fewer than two send mail."""
    now = store.now()
    keys = [
        key for key in await Access(store, operator()).list() if key.role is Role.SUBMIT and key.lives(now)
    ]
    sending = {lane.tenant for lane in await store.lanes(QUEUE)}
    tenants = sending | {key.tenant for key in keys if key.tenant is not None} | settings.senders.keys()
    if len(tenants) < 2:
        return []
    limited = {key.tenant for key in keys} - {key.tenant for key in keys if not key.senders}
    free = sorted(tenants - settings.senders.keys() - limited)
    if not free:
        return [Finding("sender domains", Grade.RIGHT, "each tenant sends from its own domains")]
    shown = ", ".join(free[:_NAMED]) + (f" and {len(free) - _NAMED} more" if len(free) > _NAMED else "")
    return [
        Finding(
            "sender domains",
            Grade.WARNING,
            f"{shown} may send as any domain, those of other tenants too",
            f'set [tenants.{free[0]}] from = ["its.domain"], or make keys with --from-domain',
        )
    ]


def folder_findings(settings: Settings) -> list[Finding]:
    """Those that hold mails or letters, where they exist and other users may look into them."""
    named = {
        "archives": settings.retention.folder,
        "index": settings.office.index,
        "mailbox": mailbox_folder(settings),
    }
    places = {subject: Path(folder) for subject, folder in named.items() if folder is not None}
    return [_folder(subject, folder) for subject, folder in places.items() if folder.is_dir()]


def _folder(subject: str, folder: Path) -> Finding:
    files = islice((one for one in folder.iterdir() if one.is_file()), _LOOKED_AT)
    wide = wider([folder, *files])
    if not wide:
        return Finding(subject, Grade.RIGHT, f"only this user may look into {folder}")
    return Finding(
        subject,
        Grade.WARNING,
        f"other users may look into {folder}: {', '.join(one.name for one in wide[:_NAMED])}",
        f"chmod -R go= {folder}; leave it where a group shares it on purpose",
    )
