"""Groups and shape as they go out. Texts of failures are redacted for everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.core.redaction import redact
from redrive.core.values import instant
from redrive.office.documents.document import Document
from redrive.office.documents.letters import EmptyDocument

if TYPE_CHECKING:
    from redrive.office.groups import Group, GroupBy, Said
    from redrive.office.shape import Shape


class SampleDocument(Document, frozen=True):
    """The newest letter of a group."""

    job_id: str
    queue: str
    company_id: str
    reason: str
    last_failure_code: str | None
    last_failure_reason: str


class GroupDocument(Document, frozen=True):
    """A group; `trend` counts the first deaths of 24 equal parts of the last day, the latest last.

    `firstSeenAt` is the earliest death of any of its letters, whatever was re-driven since.
    """

    by: str
    key: str
    count: int
    state: str
    reopened: str | None
    tenants: int
    queues: list[str]
    first_seen_at: str
    last_seen_at: str
    trend: list[int]
    sample: SampleDocument
    notes: int


class GroupList(Document, frozen=True):
    """Groups, the largest first."""

    groups: list[GroupDocument]
    behind: bool
    notice: str | None
    empty: EmptyDocument | None


class NoteDocument(Document, frozen=True):
    """A note on a group."""

    at: str
    by: str
    text: str


class SaidDocument(Document, frozen=True):
    """What was last said of a group, by whom, and its notes."""

    state: str
    by: str | None
    at: str | None
    until_count: int | None
    until_at: str | None
    notes: list[NoteDocument]


class ShownGroup(Document, frozen=True):
    """What was said of a group; `group` is null while it has no letters."""

    by: str
    key: str
    said: SaidDocument
    group: GroupDocument | None


class ShapeRowDocument(Document, frozen=True):
    """A tenant's letters by age."""

    company_id: str
    total: int
    counts: list[int]


class ShapeDocument(Document, frozen=True):
    """Letters by tenant and age, the youngest bucket first; `others` is how many tenants are not shown."""

    ages: list[str]
    total: int
    counts: list[int]
    tenants: list[ShapeRowDocument]
    others: int
    behind: bool
    notice: str | None
    empty: EmptyDocument | None


SCHEMAS = (GroupList, ShownGroup, ShapeDocument)


def group_document(one: Group) -> GroupDocument:
    """A group: what its letters come to, how it stands, and one to read."""
    counts, standing, sample = one.counts, one.standing, one.counts.sample
    return GroupDocument(
        by=counts.by.value,
        key=counts.key,
        count=counts.count,
        state=standing.state.value,
        reopened=standing.reopened,
        tenants=counts.tenants,
        queues=list(counts.queues),
        first_seen_at=instant(counts.first_died_at),
        last_seen_at=instant(counts.last_died_at),
        trend=list(counts.trend),
        sample=SampleDocument(
            job_id=sample.id,
            queue=sample.queue,
            company_id=sample.tenant,
            reason=sample.reason,
            last_failure_code=sample.code,
            last_failure_reason=redact(sample.failure),
        ),
        notes=len(standing.said.notes),
    )


def said_document(said: Said) -> SaidDocument:
    """What people said of a group."""
    return SaidDocument(
        state=said.state.value,
        by=said.actor or None,
        at=instant(said.at) if said.at else None,
        until_count=said.until_count,
        until_at=instant(said.until_at),
        notes=[NoteDocument(at=instant(one.at), by=one.actor, text=one.text) for one in said.notes],
    )


def shown_group(by: GroupBy, key: str, group: Group | None, said: Said) -> ShownGroup:
    """A group, as far as it has letters, and what was said of it."""
    shown = None if group is None else group_document(group)
    return ShownGroup(by=by.value, key=key, said=said_document(said), group=shown)


def shape_document(
    found: Shape, *, behind: bool, notice: str | None, empty: EmptyDocument | None
) -> ShapeDocument:
    """The table of tenant by age."""
    rows = [
        ShapeRowDocument(company_id=row.tenant, total=row.total, counts=list(row.counts))
        for row in found.rows
    ]
    return ShapeDocument(
        ages=list(found.labels),
        total=found.total,
        counts=list(found.counts),
        tenants=rows,
        others=found.others,
        behind=behind,
        notice=notice,
        empty=empty,
    )
