"""All routes of the admin API, in turns, behind one translation of what the office refuses.

One key has few requests under way at once, and the others of it wait: a search may take half a minute of one
of this process's few threads, and whoever sends many at once delays nobody else. Whoever has many waiting is
asked to come back later. What the office refuses is a problem with the place in a filter or in SQL, and what
to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Final

from starlette.responses import Response

from redrive.app import Redrive
from redrive.core.errors import ConfigurationError
from redrive.office import documents
from redrive.office.alerts import NoChannel, NoSilence
from redrive.office.filters import FilterError
from redrive.office.filters.masked import MaskedValue
from redrive.office.groups import GroupChanged, GroupError
from redrive.office.index import CursorError, TimeLimit
from redrive.office.messages import NotDead
from redrive.office.operations import MaskedBody, NoOperation, OperationError
from redrive.office.queues import NoQueue
from redrive.office.sql import SqlError
from redrive.office.tenants import NoTenant
from redrive.office.view import MayNotReveal, NotFound, OutOfScope
from redrive.web.access import Call, Route, rate_limited
from redrive.web.admin.alerts import AlertRoom, ChannelBody, SilenceBody
from redrive.web.admin.audit import AuditRoom
from redrive.web.admin.control import ControlRoom, TenantChange
from redrive.web.admin.export import ExportRoom
from redrive.web.admin.groups import GroupChange, GroupNote, GroupRoom
from redrive.web.admin.keys import KeyBody, KeyRoom, KeyRotation
from redrive.web.admin.letters import EditRoom, LetterEdit, LetterRoom
from redrive.web.admin.messages import MessageRoom
from redrive.web.admin.operations import OperationRoom, OrderBody
from redrive.web.admin.queues import QueueRedrive, QueueRoom
from redrive.web.admin.route import AdminRoom, Answer
from redrive.web.admin.sql import SqlBody, SqlRoom
from redrive.web.problems import (
    BAD_QUERY,
    CHANGED,
    FORBIDDEN,
    INVALID,
    NO_REVEAL,
    NOT_FOUND,
    FieldError,
    Refusal,
)

_ROOMS: tuple[type[AdminRoom], ...] = (
    QueueRoom,
    LetterRoom,
    MessageRoom,
    EditRoom,
    ExportRoom,
    GroupRoom,
    OperationRoom,
    AuditRoom,
    SqlRoom,
    ControlRoom,
    AlertRoom,
    KeyRoom,
)

BODIES = (
    QueueRedrive,
    OrderBody,
    LetterEdit,
    GroupChange,
    GroupNote,
    SqlBody,
    TenantChange,
    KeyBody,
    KeyRotation,
    SilenceBody,
    ChannelBody,
)
SCHEMAS = (*BODIES, *documents.SCHEMAS)

_REFUSALS = (
    FilterError,
    MaskedValue,
    SqlError,
    CursorError,
    TimeLimit,
    NotFound,
    MayNotReveal,
    OutOfScope,
    OperationError,
    GroupChanged,
    GroupError,
    ConfigurationError,
)

AT_ONCE: Final = 2
WAITING: Final = 20


def admin_routes(app: Redrive) -> list[Route]:
    """The admin routes of an open app."""
    office, turns, body_bytes = app.office, Turns(), app.settings.submit.body_bytes
    return [
        replace(route, answer=refusing(route.answer, turns))
        for room in _ROOMS
        for route in room(office, body_bytes).routes()
    ]


def refusing(answer: Answer, turns: Turns) -> Answer:
    """The same answer in its turn, where what the office refuses is a problem."""

    @wraps(answer)
    async def answered(call: Call) -> Response:
        try:
            async with turns.turn(call.credential.id):
                return await answer(call)
        except _REFUSALS as error:
            raise _refused(error, call) from error

    return answered


def _refused(error: Exception, call: Call) -> Refusal:
    match error:
        case FilterError():
            return _placed("filter", error)
        case SqlError():
            return _placed("sql", error)
        case TimeLimit():
            return Refusal(BAD_QUERY, str(error))
        case CursorError():
            return Refusal(
                INVALID, "the page cannot be found: see errors", [FieldError("cursor", str(error))]
            )
        case NotFound():
            return Refusal(NOT_FOUND, _missing(error))
        case MaskedValue() | MayNotReveal() | OutOfScope():
            return _forbidden(error)
        case MaskedBody():
            detail = "nothing was changed: see errors"
            return Refusal(INVALID, detail, [FieldError("payload", str(error))])
        case GroupChanged():
            return Refusal(CHANGED, str(error))
        case _:
            return Refusal(INVALID, str(error))


def _forbidden(error: MaskedValue | MayNotReveal | OutOfScope) -> Refusal:
    match error:
        case MaskedValue():
            detail = "the filter asks about what this key may not reveal: see errors"
            return Refusal(FORBIDDEN, detail, [FieldError("filter", str(error))])
        case MayNotReveal():
            return Refusal(FORBIDDEN, NO_REVEAL)
        case OutOfScope():
            return Refusal(FORBIDDEN, "this is about all tenants: use a key that belongs to none")


def _placed(field: str, error: FilterError | SqlError) -> Refusal:
    problem = f"{error.problem}: {error.advice}"
    return Refusal(BAD_QUERY, str(error), [FieldError(field, problem, position=error.position)])


def _missing(error: NotFound) -> str:
    match error:
        case NoOperation():
            return "there is no such operation, or it is not this key's to see"
        case NoQueue():
            return "there is no such queue: GET /admin/dlq/queues lists them"
        case NoTenant():
            return "there is no such tenant in any queue, or it is not this key's to see"
        case NoSilence():
            return "there is no such silence, or it has ended: GET /admin/dlq/alerts lists them"
        case NoChannel():
            return "there is no such channel in the settings: GET /admin/dlq/alerts lists them"
        case NotDead():
            return f"this message is {error.state}, not a dead letter: GET /admin/dlq/messages/ shows it"
        case _:
            return "there is no such message: it may have finished and been cleaned up"


@dataclass(slots=True)
class _Key:
    """The requests of one key."""

    free: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    present: int = 0


class Turns:
    """The turns of all keys; only those that have requests are remembered."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}

    @asynccontextmanager
    async def turn(self, key_id: str) -> AsyncIterator[None]:
        """Wait for a turn and have it while inside; Refusal where too many of the key wait already."""
        key = self._keys.setdefault(key_id, _Key())
        if key.present >= AT_ONCE + WAITING:
            raise rate_limited("too many requests of this key wait for others of it", 1)
        key.present += 1
        try:
            async with key.free:
                yield
        finally:
            key.present -= 1
            if key.present == 0:
                del self._keys[key_id]
