"""The fields of a filter by their names: one of ours, or the one that JSON and SQL use for it.

Names are read in any case. Of a payload's name only the first part is: its path is the payload's own.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum


class NameField(StrEnum):
    """Fields that are compared letter by letter."""

    ID = "id"
    QUEUE = "queue"
    TENANT = "tenant"
    CODE = "code"
    KIND = "kind"
    FINGERPRINT = "fingerprint"


class NumberField(StrEnum):
    """Fields that count."""

    ATTEMPTS = "attempts"
    REDRIVEN = "redriven"


class MomentField(StrEnum):
    """Fields that are instants: the first death, the latest of a letter that came back, the latest of any."""

    DIED = "died"
    REDIED = "redied"
    MOVED = "moved"
    ENQUEUED = "enqueued"


REASON = "reason"
AGE = "age"
PAYLOAD = "payload"
FIELDS: tuple[str, ...] = (*NameField, REASON, *NumberField, AGE, *MomentField, f"{PAYLOAD}.<path>")
SYNONYMS = {
    "jobId": NameField.ID.value,
    "outboxId": NameField.ID.value,
    "companyId": NameField.TENANT.value,
    "lastFailureCode": NameField.CODE.value,
    "lastFailureReason": REASON,
    "failedAttempts": NumberField.ATTEMPTS.value,
    "firstDiedAt": MomentField.DIED.value,
    "movedToDLQAt": MomentField.MOVED.value,
    "lastFailureTimestamp": MomentField.MOVED.value,
    "enqueuedAt": MomentField.ENQUEUED.value,
    "originalData": PAYLOAD,
}
_OWN = (*NameField, REASON, *NumberField, AGE, *MomentField, PAYLOAD)
_KNOWN = {name.lower(): name for name in _OWN} | {name.lower(): own for name, own in SYNONYMS.items()}


def field_name(given: str) -> str | None:
    """The field's own name, `payload` with the path as given; None where there is no such field."""
    head, dot, path = given.partition(".")
    own = _KNOWN.get(head.lower())
    if own is None or (dot and own != PAYLOAD):
        return None
    return f"{own}{dot}{path}"


def nearest_field(given: str) -> str | None:
    """The field whose name is most like this one."""
    head = given.partition(".")[0].strip("-+!").lower()
    found = get_close_matches(head, _KNOWN, 1, 0.6)
    return _KNOWN[found[0]] if found else None
