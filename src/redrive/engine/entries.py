"""From what a caller submits to an Entry: everything is checked here, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct, field

from redrive.core.errors import InvalidMessage
from redrive.core.message import (
    DEFAULT_TENANT,
    Entry,
    Message,
    Track,
    check_dedupe,
    check_headers,
    check_span,
    check_tenant,
    check_ttl,
    expiry,
)
from redrive.core.settings import SubmitSettings
from redrive.engine.ids import new_id
from redrive.engine.payload import encode

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_NO_HEADERS: Mapping[str, str] = {}

Payload = TypeVar("Payload", covariant=True)


class Submission(Struct, Generic[Payload], frozen=True):
    """One message of a batch. `delay` and `at` say when it may first run, at most one of them.

    A number as `delay` or `ttl` is seconds.
    """

    payload: Payload
    tenant: str = DEFAULT_TENANT
    dedupe: str | None = None
    delay: timedelta | float | None = None
    at: datetime | None = None
    ttl: timedelta | float | None = None
    track: str = Track.MAIN
    headers: Mapping[str, str] = field(default_factory=dict)
    message_id: str | None = None


def check_submission(given: object, index: int) -> None:
    """InvalidMessage where an item of a batch is something else."""
    if not isinstance(given, Submission):
        kind = type(given).__name__
        raise InvalidMessage(f"it is a {kind}, not a Submission: write Submission(payload)", index)


def make_entry(
    queue: str, submission: Submission[object], *, ttl_s: float, settings: SubmitSettings, now: int
) -> Entry:
    """The entry, or InvalidMessage. `ttl_s` is the queue's own, `now` the store's clock."""
    body = encode(submission.payload)
    if len(body) > settings.body_bytes:
        raise InvalidMessage(
            f"the body has {len(body):,} bytes, {settings.body_bytes:,} are allowed: "
            "send a reference to the data, or raise body_bytes in [submit]"
        )
    due_at = _due_at(submission, now)
    if submission.ttl is not None:
        ttl_s = check_ttl(submission.ttl)
    message = Message(
        id=new_id() if submission.message_id is None else _check_id(submission.message_id),
        queue=queue,
        tenant=check_tenant(submission.tenant),
        body=body,
        enqueued_at=now,
        ttl_s=ttl_s,
        track=_track(submission.track),
        dedupe=None if submission.dedupe is None else check_dedupe(submission.dedupe),
        headers=check_headers(submission.headers) if submission.headers else _NO_HEADERS,
    )
    return Entry(message, due_at, expiry(now, due_at, ttl_s))


def _due_at(submission: Submission[object], now: int) -> int:
    if submission.delay is not None:
        if submission.at is not None:
            raise InvalidMessage("give delay or at, not both")
        return now + max(0, round(check_span("delay", submission.delay).total_seconds() * 1000))
    if submission.at is None:
        return now
    return max(now, round(_check_instant(submission.at).timestamp() * 1000))


def _check_instant(at: object) -> datetime:
    if not isinstance(at, datetime):
        raise InvalidMessage(f"at is of type {type(at).__name__}: give a datetime with a time zone")
    if at.tzinfo is None:
        raise InvalidMessage("at is a naive datetime, which is not an instant: give it a time zone")
    return at


def _track(name: str) -> Track:
    if isinstance(name, Track):
        return name
    try:
        return Track(name)
    except ValueError:
        known = ", ".join(Track)
        raise InvalidMessage(f"track {name!r} is not known: use one of {known}") from None


def _check_id(message_id: object) -> str:
    if not isinstance(message_id, str) or not _UUID.fullmatch(message_id):
        raise InvalidMessage("message_id is not a UUID in lower case with hyphens")
    return message_id
