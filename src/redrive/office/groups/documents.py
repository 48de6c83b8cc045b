"""How groups look on the wire: JSON in camelCase, times with Z; texts of failures are redacted."""

from __future__ import annotations

from typing import Any

from redrive.core.redaction import redact
from redrive.office.groups import Group, Said
from redrive.office.wire import instant


def group_document(one: Group) -> dict[str, Any]:
    """A group: what its letters come to, how it stands, and one to read."""
    counts, standing, sample = one.counts, one.standing, one.counts.sample
    return {
        "by": counts.by.value,
        "key": counts.key,
        "count": counts.count,
        "state": standing.state.value,
        "reopened": standing.reopened,
        "tenants": counts.tenants,
        "firstSeenAt": instant(counts.first_died_at),
        "lastSeenAt": instant(counts.last_died_at),
        "trend": list(counts.trend),
        "sample": {
            "jobId": sample.id,
            "queue": sample.queue,
            "companyId": sample.tenant,
            "reason": sample.reason,
            "lastFailureCode": sample.code,
            "lastFailureReason": redact(sample.failure),
        },
        "notes": len(standing.said.notes),
    }


def said_document(said: Said) -> dict[str, Any]:
    """What people said of a group."""
    return {
        "state": said.state.value,
        "by": said.actor or None,
        "at": instant(said.at) if said.at else None,
        "untilCount": said.until_count,
        "untilAt": instant(said.until_at),
        "notes": [{"at": instant(one.at), "by": one.actor, "text": one.text} for one in said.notes],
    }
