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
from redrive.cli.session import NO_FLAGS, Flags, open_store
from redrive.config import Settings
from redrive.core.condition import Description, Finding, Grade
from redrive.core.private import wider

_LOOKED_AT = 10_000
_NAMED = 3
_STYLES = {Grade.RIGHT: "green", Grade.WARNING: "yellow", Grade.WRONG: "bold red", Grade.UNKNOWN: "cyan"}


async def doctor(*, flags: Flags = NO_FLAGS) -> int:
    """Examine the live store: what is right, wrong or worth a look, and how to fix it."""
    output = Output(flags.json)
    settings = flags.settings()
    async with open_store(settings) as store:
        described, findings = await store.describe(), await store.examine()
    findings += _folders(settings)
    wrong = any(finding.grade is Grade.WRONG for finding in findings)
    document = {
        "store": described.url,
        "durability": described.durability.value,
        "healthy": not wrong,
        "findings": [_document(finding) for finding in findings],
    }
    output.answer(document, lambda: _page(output, described, findings))
    return Exit.FAILED if wrong else Exit.OK


def _folders(settings: Settings) -> list[Finding]:
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


def _document(finding: Finding) -> dict[str, str]:
    return {
        "subject": finding.subject,
        "grade": finding.grade.value,
        "found": finding.found,
        "mend": finding.mend,
    }


def _page(output: Output, described: Description, findings: Sequence[Finding]) -> RenderableType:
    table = output.table("", "subject", "found", words=("found",))
    for finding in findings:
        found = Text(clean(finding.found))
        if finding.mend:
            found.append(f"\n→ {clean(finding.mend)}", "bold")
        table.add_row(Text(finding.grade.value, _STYLES[finding.grade]), name(finding.subject), found)
    return Group(store_line(described), Text(), table, Text(), Text(_summary(findings)))


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.grade for finding in findings)
    return ", ".join(f"{counts[grade]} {grade.value}" for grade in Grade if counts[grade])
