"""All rooms of the admin API, behind one translation of what the office refuses."""

from __future__ import annotations

from dataclasses import replace

from redrive.app import Redrive
from redrive.office import documents
from redrive.web.access import Route
from redrive.web.admin.audit import AuditRoom
from redrive.web.admin.control import ControlRoom, TenantChange
from redrive.web.admin.edit import EditRoom, LetterEdit
from redrive.web.admin.export import ExportRoom
from redrive.web.admin.groups import GroupChange, GroupNote, GroupRoom
from redrive.web.admin.keys import KeyBody, KeyRoom, KeyRotation
from redrive.web.admin.letters import LetterRoom
from redrive.web.admin.messages import MessageRoom
from redrive.web.admin.operations import OperationRoom, OrderBody
from redrive.web.admin.queues import QueueRedrive, QueueRoom
from redrive.web.admin.refusals import refusing
from redrive.web.admin.room import AdminRoom
from redrive.web.admin.sql import SqlBody, SqlRoom
from redrive.web.admin.turns import Turns

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
)
SCHEMAS = (*BODIES, *documents.SCHEMAS)


def admin_routes(app: Redrive) -> list[Route]:
    """The admin routes of an open app."""
    office, turns, body_bytes = app.office, Turns(), app.settings.submit.body_bytes
    return [
        replace(route, answer=refusing(route.answer, turns))
        for room in _ROOMS
        for route in room(office, body_bytes).routes()
    ]
