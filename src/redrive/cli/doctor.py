"""`redrive doctor`: the live store and what surrounds it, line by line, with how to fix what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from redrive.mail.stored import QUEUE
from redrive.office.doctor import Surroundings, examine
from redrive.office.documents.findings import examination_document

_STYLES = {Grade.RIGHT: "green", Grade.WARNING: "yellow", Grade.WRONG: "bold red", Grade.UNKNOWN: "cyan"}


async def doctor(*, flags: Flags = NO_FLAGS) -> int:
    """Examine the live store: what is right, wrong or worth a look, and how to fix it."""
    output, settings = Output(flags.json), flags.settings()
    async with open_store(settings) as store:
        found = await examine(store, operator(), _surroundings(settings))
    output.answer(examination_document(found), lambda: _page(output, found.described, found.findings))
    return Exit.OK if found.healthy else Exit.FAILED


def _surroundings(settings: Settings) -> Surroundings:
    named = {
        "archives": settings.retention.folder,
        "index": settings.office.index,
        "mailbox": mailbox_folder(settings),
    }
    return Surroundings(
        mail_queue=QUEUE,
        senders=frozenset(settings.senders),
        alerts=settings.alerts,
        folders={subject: Path(folder) for subject, folder in named.items() if folder is not None},
    )


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
