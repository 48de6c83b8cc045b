"""Operations on the wire."""

from __future__ import annotations

from redrive.web.admin.documents.document import Document
from redrive.web.admin.documents.letters import EmptyDocument


class PartDocument(Document, frozen=True):
    """So many letters of a queue and a tenant have this reason."""

    queue: str
    company_id: str
    reason: str
    count: int


class PreviewDocument(Document, frozen=True):
    """What an operation would take, and what it would leave: `expired`, `gone` (not dead), `notFound`.

    `empty` says why a filter finds nothing.
    """

    count: int
    expired: int
    gone: int
    not_found: int
    groups: list[PartDocument]
    samples: list[str]
    budget: int
    over_budget: bool
    empty: EmptyDocument | None


class OperationDocument(Document, frozen=True):
    """An operation. Of `total` frozen letters so many are `handled`: `moved`, or `skipped` as moved before.

    Of the re-driven ones `passed` or `failed` their first attempt; `done`, `deadAgain` or `removed` in the
    end; `outstanding` are those whose end is not known. `unattended`: it runs, and no process carries it out.
    """

    id: str
    kind: str
    state: str
    unattended: bool
    why: str | None
    actor: str
    origin: str
    filter: str
    ids: list[str]
    scope: str | None
    limit: int | None
    rate: str | None
    canary: int
    ramp: bool
    halt_share: float
    halt_least: int
    to_queue: str | None
    file: str | None
    created_at: str
    ended_at: str | None
    hash: str | None
    total: int
    expired: int
    gone: int
    not_found: int
    handled: int
    moved: int
    skipped: int
    passed: int
    failed: int
    done: int
    dead_again: int
    removed: int
    outstanding: int
    per_second: float | None
    seconds_left: float | None


class OperationPage(Document, frozen=True):
    """Operations, the newest first; `cursor` is null at the end."""

    operations: list[OperationDocument]
    cursor: str | None


SCHEMAS = (
    PreviewDocument,
    OperationDocument,
    OperationPage,
)
