"""What goes wrong, as RFC 9457 problems: the one place that turns an error into an answer.

An answer never holds a path, a traceback or the store's own words: those go to the log under the problem's
`instance`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import uuid4

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from redrive.core.errors import Conflict, InvalidMessage, RedriveError, StoreError, StoreFull
from redrive.core.redaction import redact
from redrive.mail.desk import InvalidMails
from redrive.mail.writing.mail import InvalidMail
from redrive.web.problem_types import (
    BAD_JSON,
    CONFLICT,
    INVALID,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNAVAILABLE,
    UNEXPECTED,
    ProblemType,
)

MEDIA_TYPE = "application/problem+json"
_BUSY_S, _FULL_S = 5, 30
_NO_HEADERS: Mapping[str, str] = {}

logger = logging.getLogger("redrive.web")


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong; `index` is its place in a batch, `position` the character, from 0."""

    field: str
    problem: str
    index: int | None = None
    position: int | None = None


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[FieldError, ...] = ()


class Refusal(RedriveError):
    """A request that is not granted; becomes a problem."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        self.kind, self.detail, self.headers = kind, detail, headers
        self.errors = tuple(errors)
        super().__init__(detail)


def answer_to(error: Exception) -> Response:
    """The answer to whatever a route raised."""
    instance = f"urn:uuid:{uuid4()}"
    refused = _refused(error)
    if refused.kind.status >= 500:
        _log(refused, error, instance)
    problem = ProblemDocument(
        type=f"/docs#{refused.kind.name}",
        title=refused.kind.title,
        status=refused.kind.status,
        detail=refused.detail,
        instance=instance,
        errors=refused.errors,
    )
    return Response(
        msgspec.json.encode(problem),
        refused.kind.status,
        headers=dict(refused.headers),
        media_type=MEDIA_TYPE,
    )


def _refused(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case InvalidMessage():
            return Refusal(INVALID, "nothing was accepted: see errors", field_errors(error))
        case Conflict():
            return Refusal(CONFLICT, str(error))
        case StoreError():
            return _unavailable(error)
        case HTTPException():
            return _routing(error)
        case ClientDisconnect():
            return Refusal(BAD_JSON, "the connection ended before the body did")
        case _:
            detail = "the request failed for a reason that is in the log; nothing more is told here"
            return Refusal(UNEXPECTED, detail)


def field_errors(error: InvalidMessage) -> list[FieldError]:
    """Everything that is wrong with a message, a mail or a batch of mails."""
    if isinstance(error, InvalidMails):
        return [found for one in error.refused for found in field_errors(one)]
    if isinstance(error, InvalidMail):
        return [FieldError(field, problem, error.index) for field, problem in error.problems]
    return [FieldError("", error.problem, error.index)]


def _unavailable(error: StoreError) -> Refusal:
    if isinstance(error, StoreFull):
        detail = "the store has no room for new work; what was accepted before still drains"
        return Refusal(UNAVAILABLE, detail, headers={"Retry-After": str(_FULL_S)})
    detail = "the store does not answer; a submit may or may not have been accepted"
    return Refusal(UNAVAILABLE, detail, headers={"Retry-After": str(_BUSY_S)})


def _routing(error: HTTPException) -> Refusal:
    headers = error.headers or _NO_HEADERS
    if error.status_code == METHOD_NOT_ALLOWED.status:
        return Refusal(METHOD_NOT_ALLOWED, "the address exists, and this method does not", headers=headers)
    if error.status_code == NOT_FOUND.status:
        return Refusal(NOT_FOUND, "no route has this address: /openapi.json lists them")
    return Refusal(BAD_JSON, "the request cannot be read")


def _log(refused: Refusal, error: Exception, instance: str) -> None:
    fields = {"instance": instance, "status": refused.kind.status, "error": redact(str(error))}
    if refused.kind is UNEXPECTED:
        logger.error("Request failed unexpectedly", extra={"fields": fields}, exc_info=error)
    else:
        logger.warning("Request not answered: %s", refused.detail, extra={"fields": fields})
