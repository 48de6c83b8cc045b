"""Operations and previews as they go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.core.values import instant
from redrive.office.documents.document import Document
from redrive.office.documents.letters import EmptyDocument, empty_document

if TYPE_CHECKING:
    from redrive.office.operations import Preview, Snapshot

SHOWN_IDS = 20
_CAUSES = 10


class PartDocument(Document, frozen=True):
    """So many letters of a queue and a tenant have this reason."""

    queue: str
    company_id: str
    reason: str
    count: int


class CauseDocument(Document, frozen=True):
    """So many letters have this code and reason; the code is empty where the last failure had none."""

    code: str
    reason: str
    count: int


class PreviewDocument(Document, frozen=True):
    """What an operation would take, and what it would leave: `expired`, `gone` (not dead), `notFound`.

    `causes` are the largest ten. `canary` and `rate` are what it would run with, said or by default; a null
    rate is as fast as it goes, `seconds` how long a rate makes it last. `empty`: why a filter finds nothing.
    A start that carries `asOf`, and `count` as `counted`, takes these letters and none that died later.
    """

    count: int
    expired: int
    gone: int
    not_found: int
    causes: list[CauseDocument]
    canary: int
    rate: str | None
    seconds: float | None
    groups: list[PartDocument]
    samples: list[str]
    budget: int
    over_budget: bool
    as_of: str
    empty: EmptyDocument | None


class OperationDocument(Document, frozen=True):
    """An operation. Of `total` frozen letters so many are `handled`: `moved`, or `skipped` as moved before.

    Of the re-driven ones `passed` or `failed` their first attempt; `done`, `deadAgain` or `removed` in the
    end; `outstanding` are those whose end is not known. `unattended`: it runs, and no process carries it out.
    `files`: the archives that it made.
    """

    id: str
    kind: str
    state: str
    why: str | None
    unattended: bool
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
    files: list[str]
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


SCHEMAS = (PreviewDocument, OperationDocument, OperationPage)


def preview_document(preview: Preview) -> PreviewDocument:
    """What an order would take: the count, its split, samples, and what is left out."""
    return PreviewDocument(
        count=preview.count,
        expired=preview.expired,
        gone=preview.gone,
        not_found=preview.missing,
        causes=[
            CauseDocument(code=code, reason=reason, count=count)
            for (code, reason), count in preview.causes[:_CAUSES]
        ],
        canary=preview.order.canary or 0,
        rate=None if preview.order.pace is None else preview.order.rate,
        seconds=preview.lasts_s,
        groups=[
            PartDocument(queue=queue, company_id=tenant, reason=reason, count=count)
            for (queue, tenant, reason), count in preview.split
        ],
        samples=list(preview.samples),
        budget=preview.budget,
        over_budget=preview.over_budget,
        as_of=instant(preview.as_of),
        empty=empty_document(preview.empty),
    )


def operation_document(seen: Snapshot) -> OperationDocument:
    """An operation with its progress."""
    operation, order = seen.operation, seen.operation.order
    return OperationDocument(
        id=operation.id,
        kind=order.kind.value,
        state=operation.state.value,
        why=operation.why or None,
        unattended=seen.unattended,
        actor=operation.actor,
        origin=operation.origin,
        filter=order.selection.filter,
        ids=list(order.selection.ids[:SHOWN_IDS]),
        scope=order.selection.scope,
        limit=order.selection.limit,
        rate=None if order.pace is None else order.rate,
        canary=order.canary or 0,
        ramp=order.ramp,
        halt_share=order.halt_share,
        halt_least=order.halt_least,
        to_queue=order.to_queue,
        file=order.file,
        files=list(operation.files),
        created_at=instant(operation.created_at),
        ended_at=instant(operation.ended_at),
        hash=operation.frozen.hash or None,
        total=operation.frozen.total,
        expired=operation.frozen.expired,
        gone=operation.frozen.gone,
        not_found=operation.frozen.missing,
        handled=seen.handled,
        moved=seen.moved,
        skipped=seen.skipped,
        passed=seen.passed,
        failed=seen.failed,
        done=seen.done,
        dead_again=seen.dead,
        removed=seen.removed,
        outstanding=seen.outstanding,
        per_second=None if seen.speed is None else round(seen.speed, 1),
        seconds_left=None if seen.left_s is None else round(seen.left_s, 1),
    )
