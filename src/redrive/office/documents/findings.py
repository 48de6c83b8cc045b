"""What was found: by the doctor, in the audit, by SQL; as it goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redrive.core.records import JournalRow
from redrive.core.values import instant
from redrive.office.documents.document import Document

if TYPE_CHECKING:
    from redrive.office.chain import Verification
    from redrive.office.doctor import Examination
    from redrive.office.sql import SqlAnswer


class FindingDocument(Document, frozen=True):
    """What was looked at, what was found, and how to fix it."""

    subject: str
    grade: str
    found: str
    fix: str


class ExaminationDocument(Document, frozen=True):
    """The live store, line by line; not `healthy` when something is wrong."""

    store: str
    durability: str
    healthy: bool
    findings: list[FindingDocument]


class AuditPage(Document, frozen=True):
    """Rows of the audit, the newest first; `cursor` is null at the end."""

    rows: list[dict[str, Any]]
    cursor: int | None


class FaultDocument(Document, frozen=True):
    """What is wrong at a row."""

    row: int
    what: str


class VerificationDocument(Document, frozen=True):
    """Whether the audit is whole. Keep `head` in another place, and hand it in the next time."""

    whole: bool
    rows: int
    unchained: int
    faults: list[FaultDocument]
    head: str


class CopiedDocument(Document, frozen=True):
    """Of how many letters an answer speaks."""

    copied: int
    of: int


class SqlDocument(Document, frozen=True):
    """The rows found; not `complete` when rows or letters were left out at a limit."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    letters: CopiedDocument


SCHEMAS = (AuditPage, VerificationDocument, SqlDocument)


def examination_document(found: Examination) -> ExaminationDocument:
    """What the doctor found."""
    return ExaminationDocument(
        store=found.described.url,
        durability=found.described.durability.value,
        healthy=found.healthy,
        findings=[
            FindingDocument(subject=one.subject, grade=one.grade.value, found=one.found, fix=one.fix)
            for one in found.findings
        ],
    )


def row_document(row: JournalRow) -> dict[str, Any]:
    """A row of the audit as it stands, with its position, and its instant as its hash covers it."""
    at = int(row.document.get("at", row.at))
    return {**row.document, "position": row.position, "at": instant(at)}


def verification_document(found: Verification) -> VerificationDocument:
    """What reading the whole audit came to."""
    return VerificationDocument(
        whole=found.whole,
        rows=found.rows,
        unchained=found.unchained,
        faults=[FaultDocument(row=fault.position, what=fault.what) for fault in found.faults],
        head=str(found.head),
    )


def sql_document(answer: SqlAnswer) -> SqlDocument:
    """The answer to one SELECT."""
    return SqlDocument(
        columns=list(answer.columns),
        rows=[list(row) for row in answer.rows],
        complete=answer.complete,
        letters=CopiedDocument(copied=answer.copied.letters, of=answer.copied.of),
    )
