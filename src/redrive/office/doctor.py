"""What `redrive doctor` looks at: the store's own examination, channels of alerts, whether tenants can send
as one another, and folders that other users may look into. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from redrive.core.alert_rules import AlertSettings
from redrive.core.condition import Description, Finding, Grade
from redrive.core.store import Store
from redrive.machine.private import wider
from redrive.office.access import Access, Role
from redrive.office.alerts import channel_findings
from redrive.office.audit import Actor

_LOOKED_AT = 10_000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a store; `senders` are the tenants whose domains are set, folders go by subject."""

    mail_queue: str
    senders: frozenset[str]
    alerts: AlertSettings
    folders: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found; healthy unless something is wrong."""

    described: Description
    findings: Sequence[Finding]

    @property
    def healthy(self) -> bool:
        return all(finding.grade is not Grade.WRONG for finding in self.findings)


async def examine(store: Store, actor: Actor, surroundings: Surroundings) -> Examination:
    """Everything there is to say of a live store."""
    findings = [
        *await store.examine(),
        *await _senders(store, actor, surroundings),
        *await channel_findings(store, surroundings.alerts),
        *(_folder(subject, folder) for subject, folder in surroundings.folders.items() if folder.is_dir()),
    ]
    return Examination(await store.describe(), findings)


async def _senders(store: Store, actor: Actor, around: Surroundings) -> list[Finding]:
    """Whether tenants can send as one another; nothing where fewer than two send mail."""
    keys = [key for key in await Access(store, actor).list() if key.role is Role.SUBMIT]
    sending = {lane.tenant for lane in await store.lanes(around.mail_queue)}
    tenants = sending | {key.tenant for key in keys if key.tenant is not None} | around.senders
    if len(tenants) < 2:
        return []
    limited = {key.tenant for key in keys} - {key.tenant for key in keys if not key.senders}
    free = sorted(tenants - around.senders - limited)
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
