"""Dead letters that other software left: where they came from, why they died, and what they were to do.

Reads what the broker says about any dead letter (`x-death`), Celery's messages (protocol 2) and Dramatiq's.
Whatever is not as expected is read as if it were not there, so every letter has an answer. Nothing of a body
is ever run: what Python pickled stays bytes. Pure. Known weakness: Celery does not write why a task failed,
so the reason of its letters is only the broker's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

Headers = Mapping[str, Any]

_DEATHS = {
    "rejected": "rejected by its consumer",
    "expired": "expired: its time to live in the queue ended",
    "delivery_limit": "handed out too often: its consumers were lost",
    "maxlen": "dropped from the head of a full queue",
}
_UNKNOWN = "found in a dead-letter queue; nothing says why"
_COUNTED = ("rejected", "delivery_limit")
_PICKLED = ("application/x-python-serialize", "application/x-python-pickle")
_ENDINGS = (".XQ", ".DQ")
_REASON_LENGTH = 500


class ForeignProperties(Protocol):
    """What is read of a message's properties."""

    @property
    def content_type(self) -> str | None: ...
    @property
    def content_encoding(self) -> str | None: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def correlation_id(self) -> str | None: ...


class ForeignLetter(Struct, frozen=True, kw_only=True):
    """One dead letter as people read it.

    `origin` is the queue it died in first, `death` the broker's word for how. `payload` is what it was to do;
    where it cannot be shown it is None, and `hidden` says why.
    """

    reason: str
    origin: str | None = None
    death: str | None = None
    died_at: int | None = None
    id: str | None = None
    software: str | None = None
    task: str | None = None
    attempts: int = 1
    payload: Any = None
    hidden: str | None = None
    traceback: str | None = None


def read_foreign(headers: Headers, properties: ForeignProperties, body: bytes) -> ForeignLetter:
    """What a dead letter says about itself."""
    plain = _plain(headers, properties, body)
    if isinstance(headers.get("task"), str) and "id" in headers:
        return _celery(plain, headers, properties, body)
    found = _json(body)
    if isinstance(found, dict) and {"actor_name", "queue_name", "message_id"} <= found.keys():
        return _dramatiq(plain, found)
    return plain


def _plain(headers: Headers, properties: ForeignProperties, body: bytes) -> ForeignLetter:
    deaths = list(_deaths(headers))
    last = deaths[0] if deaths else {}
    origin = _text(headers.get("x-first-death-queue")) or (_text(deaths[-1].get("queue")) if deaths else None)
    death = _text(last.get("reason"))
    counted = (one for one in deaths if one.get("queue") == origin and one.get("reason") in _COUNTED)
    stamp = last.get("time")
    payload, hidden = _shown(properties, headers, body)
    return ForeignLetter(
        reason=_DEATHS.get(death or "", f"dead-lettered as {death}" if death else _UNKNOWN),
        origin=origin,
        death=death,
        died_at=round(stamp.timestamp() * 1000) if isinstance(stamp, datetime) else None,
        id=_text(properties.message_id) or _text(properties.correlation_id),
        attempts=max(1, sum(_number(one.get("count")) for one in counted)),
        payload=payload,
        hidden=hidden,
    )


def _celery(
    plain: ForeignLetter, headers: Headers, properties: ForeignProperties, body: bytes
) -> ForeignLetter:
    """Protocol 2: the task in the headers, `[args, kwargs, embed]` in the body."""
    task = str(headers["task"])
    payload, hidden = _shown(properties, headers, body)
    match payload:
        case [list() as args, dict() as kwargs, dict()]:
            payload = {"task": task, "args": args, "kwargs": kwargs}
    return msgspec.structs.replace(
        plain,
        software="celery",
        task=task,
        id=_text(headers["id"]) or plain.id,
        reason=f"{plain.reason} (Celery task {task})",
        attempts=1 + _number(headers.get("retries")),
        payload=payload,
        hidden=hidden,
    )


def _dramatiq(plain: ForeignLetter, message: Mapping[str, Any]) -> ForeignLetter:
    """The message is JSON as a whole, and its options have the last failure."""
    actor, options = str(message["actor_name"]), message.get("options")
    options = options if isinstance(options, dict) else {}
    traceback = _text(options.get("traceback"))
    return msgspec.structs.replace(
        plain,
        software="dramatiq",
        task=actor,
        id=_text(message["message_id"]) or plain.id,
        origin=_without_ending(_text(message["queue_name"]) or plain.origin),
        reason=_last_line(traceback) or f"{plain.reason} (Dramatiq actor {actor})",
        attempts=1 + _number(options.get("retries")),
        payload={"actor": actor, "args": message.get("args"), "kwargs": message.get("kwargs")},
        hidden=None,
        traceback=traceback,
    )


def _deaths(headers: Headers) -> Iterator[Mapping[str, Any]]:
    """The latest first, as the broker writes them."""
    found = headers.get("x-death")
    return (one for one in (found if isinstance(found, list) else ()) if isinstance(one, Mapping))


def _shown(properties: ForeignProperties, headers: Headers, body: bytes) -> tuple[Any, str | None]:
    """The body as JSON or text, or why it is only bytes."""
    if properties.content_type in _PICKLED:
        return None, "a pickled body: it could run code when read, so it is kept and shown as bytes"
    compression = _text(headers.get("compression"))
    if compression is not None:
        return None, f"a compressed body ({compression}): it is kept and shown as bytes"
    found = _json(body)
    if found is not msgspec.UNSET:
        return found, None
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        kind = properties.content_type or "no content type"
        return None, f"neither JSON nor text ({kind}): it is kept and shown as bytes"


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.UNSET


def _without_ending(queue: str | None) -> str | None:
    """Dramatiq's queue of dead or delayed messages belongs to the one it is named after."""
    return next((queue.removesuffix(one) for one in _ENDINGS if queue and queue.endswith(one)), queue)


def _last_line(traceback: str | None) -> str | None:
    lines = [line.strip() for line in (traceback or "").splitlines() if line.strip()]
    return lines[-1][:_REASON_LENGTH] if lines else None


def _text(value: object) -> str | None:
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
