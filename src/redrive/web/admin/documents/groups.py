"""Groups and shape on the wire."""

from __future__ import annotations

from redrive.web.admin.documents.document import Document
from redrive.web.admin.documents.letters import EmptyDocument


class SampleDocument(Document, frozen=True):
    """The newest letter of a group."""

    job_id: str
    queue: str
    company_id: str
    reason: str
    last_failure_code: str | None
    last_failure_reason: str


class GroupDocument(Document, frozen=True):
    """A group; `trend` counts the deaths of 24 equal parts of the last day, the latest last."""

    by: str
    key: str
    count: int
    state: str
    reopened: str | None
    tenants: int
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


SCHEMAS = (
    GroupList,
    ShownGroup,
    ShapeDocument,
)
