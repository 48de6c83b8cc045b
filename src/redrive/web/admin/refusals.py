"""What the office refuses, as problems: with the place in a filter or in SQL, and what to do."""

from __future__ import annotations

from functools import wraps

from starlette.responses import Response

from redrive.core.errors import ConfigurationError
from redrive.office.filters import FilterError
from redrive.office.filters.masked import MaskedValue
from redrive.office.groups import GroupChanged, GroupError
from redrive.office.index import CursorError, TimeLimit
from redrive.office.messages import NotDead
from redrive.office.operations import MaskedBody, NoOperation, OperationError
from redrive.office.queues import NoQueue
from redrive.office.sql import SqlError
from redrive.office.tenants import NoTenant
from redrive.office.view import MayNotReveal, NotFound
from redrive.web.access import Call
from redrive.web.admin.route import Answer
from redrive.web.admin.turns import Turns
from redrive.web.problems import BAD_QUERY, CHANGED, FORBIDDEN, INVALID, NOT_FOUND, FieldError, Refusal

_REFUSALS = (
    FilterError,
    MaskedValue,
    SqlError,
    CursorError,
    TimeLimit,
    NotFound,
    MayNotReveal,
    OperationError,
    GroupChanged,
    GroupError,
    ConfigurationError,
)


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
        case MaskedValue():
            detail = "the filter asks about what this key may not reveal: see errors"
            return Refusal(FORBIDDEN, detail, [FieldError("filter", str(error))])
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
        case MayNotReveal():
            detail = "this key has no permission to reveal"
            return Refusal(FORBIDDEN, detail)
        case MaskedBody():
            detail = "nothing was changed: see errors"
            return Refusal(INVALID, detail, [FieldError("payload", str(error))])
        case GroupChanged():
            return Refusal(CHANGED, str(error))
        case _:
            return Refusal(INVALID, str(error))


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
        case NotDead():
            return f"this message is {error.state}, not a dead letter: GET /admin/dlq/messages/ shows it"
        case _:
            return "there is no such message: it may have finished and been cleaned up"
