"""All rooms of the admin API, behind one translation of what the office refuses."""

from __future__ import annotations

from dataclasses import replace

from redrive.app import Redrive
from redrive.web.access import Operation
from redrive.web.admin import documents
from redrive.web.admin.audit import Audit
from redrive.web.admin.control import Control, TenantChange
from redrive.web.admin.editing import Editing, LetterEdit
from redrive.web.admin.export import Exports
from redrive.web.admin.groups import GroupChange, GroupNote, Groups
from redrive.web.admin.letters import Letters
from redrive.web.admin.office import Office
from redrive.web.admin.operations import Operations, OrderBody
from redrive.web.admin.queues import QueueRedrive, Queues
from redrive.web.admin.refusals import refusing
from redrive.web.admin.shape import Shapes
from redrive.web.admin.sql import SqlBody, SqlRoutes
from redrive.web.admin.turns import Turns

_ROOMS = (Queues, Letters, Editing, Exports, Groups, Shapes, Operations, Audit, SqlRoutes, Control)

BODIES = (QueueRedrive, OrderBody, LetterEdit, GroupChange, GroupNote, SqlBody, TenantChange)
SCHEMAS = (*BODIES, *documents.SCHEMAS)


def admin_operations(app: Redrive) -> list[Operation]:
    """The admin routes of an open app."""
    office, turns = Office.of(app), Turns()
    return [
        replace(operation, answer=refusing(operation.answer, turns))
        for room in _ROOMS
        for operation in room(office).operations()
    ]
