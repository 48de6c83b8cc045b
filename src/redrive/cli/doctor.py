"""`redrive doctor`: the live store, line by line, and how to fix what is wrong. It changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.findings import folder_findings, sender_findings
from redrive.cli.output import Output, clean, name
from redrive.cli.problems import Exit
from redrive.cli.render.store import store_line
from redrive.cli.session import NO_FLAGS, Flags, open_store
from redrive.core.condition import Description, Finding, Grade

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
