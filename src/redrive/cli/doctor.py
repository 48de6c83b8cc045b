"""`redrive doctor`: the live store, line by line, and how to fix what is wrong. It changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.mailbox import mailbox_folder
from redrive.cli.output import Output, clean, name
from redrive.cli.problems import Exit
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags, open_store, operator
from redrive.config import Settings
from redrive.core.condition import Description, Finding, Grade
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


_STYLES = {Grade.RIGHT: "green", Grade.WARNING: "yellow", Grade.WRONG: "bold red", Grade.UNKNOWN: "cyan"}


async def doctor(*, flags: Flags = NO_FLAGS) -> int:
    """Examine the live store: what is right, wrong or worth a look, and how to fix it."""
    output = Output(flags.json)
    settings = flags.settings()
    async with open_store(settings) as store:
        described, findings = await store.describe(), await store.examine()
        findings += await sender_findings(store, settings)
    findings += folder_findings(settings)
    wrong = any(finding.grade is Grade.WRONG for finding in findings)
    document = {
        "store": described.url,
        "durability": described.durability.value,
        "healthy": not wrong,
        "findings": [_document(finding) for finding in findings],
    }
    output.answer(document, lambda: _page(output, described, findings))
    return Exit.FAILED if wrong else Exit.OK


def _document(finding: Finding) -> dict[str, str]:
    return {
        "subject": finding.subject,
        "grade": finding.grade.value,
        "found": finding.found,
        "fix": finding.fix,
    }


def _page(output: Output, described: Description, findings: Sequence[Finding]) -> RenderableType:
    table = output.table("", "subject", "found", words=("found",))
    for finding in findings:
        found = Text(clean(finding.found))
        if finding.fix:
            found.append(f"\n→ {clean(finding.fix)}", "bold")
        table.add_row(Text(finding.grade.value, _STYLES[finding.grade]), name(finding.subject), found)
    return Group(store_line(described), Text(), table, Text(), Text(_summary(findings)))


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.grade for finding in findings)
    return ", ".join(f"{counts[grade]} {grade.value}" for grade in Grade if counts[grade])
