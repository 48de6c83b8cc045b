"""How operations, previews and rows of the audit look on the wire: JSON in camelCase, times with Z."""

from __future__ import annotations

from typing import Any

from redrive.core.records import JournalRow
from redrive.office.audit import instant_of
from redrive.office.operations.desk import Preview
from redrive.office.operations.operation import SHOWN_IDS
from redrive.office.operations.progress import Snapshot
from redrive.office.wire import instant


def preview_document(preview: Preview) -> dict[str, Any]:
    """What an order would take: the count, its split, samples, and what is left out."""
    return {
        "count": preview.count,
        "expired": preview.expired,
        "gone": preview.gone,
        "notFound": preview.missing,
        "groups": [
            {"queue": queue, "companyId": tenant, "reason": reason, "count": count}
            for (queue, tenant, reason), count in preview.split
        ],
        "samples": list(preview.samples),
        "budget": preview.budget,
        "overBudget": preview.over_budget,
    }


def operation_document(seen: Snapshot) -> dict[str, Any]:
    """An operation with its progress."""
    operation, order = seen.operation, seen.operation.order
    return {
        "id": operation.id,
        "kind": order.kind.value,
        "state": operation.state.value,
        "why": operation.why or None,
        "unattended": seen.unattended,
        "actor": operation.actor,
        "origin": operation.origin,
        "filter": order.selection.filter,
        "ids": list(order.selection.ids[:SHOWN_IDS]),
        "scope": order.selection.scope,
        "limit": order.selection.limit,
        "rate": order.rate,
        "canary": order.canary,
        "ramp": order.ramp,
        "haltShare": order.halt_share,
        "haltLeast": order.halt_least,
        "toQueue": order.to_queue,
        "file": order.file,
        "createdAt": instant(operation.created_at),
        "endedAt": instant(operation.ended_at),
        "hash": operation.frozen.hash or None,
        "total": operation.frozen.total,
        "expired": operation.frozen.expired,
        "gone": operation.frozen.gone,
        "notFound": operation.frozen.missing,
        "handled": seen.handled,
        "moved": seen.moved,
        "skipped": seen.skipped,
        "passed": seen.passed,
        "failed": seen.failed,
        "done": seen.done,
        "deadAgain": seen.dead,
        "removed": seen.removed,
        "outstanding": seen.outstanding,
        "perSecond": None if seen.speed is None else round(seen.speed, 1),
        "secondsLeft": None if seen.left_s is None else round(seen.left_s, 1),
    }


def row_document(row: JournalRow) -> dict[str, Any]:
    """A row of the audit."""
    return {**row.document, "position": row.position, "at": instant(instant_of(row))}
