"""How an admin route is described and declared: its parameters, body, answers and problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from redrive.office.access import Permission
from redrive.web import description
from redrive.web.access import Call, Route
from redrive.web.admin.query import NoParameters, Parameters, parameters
from redrive.web.description import Described, reference
from redrive.web.problems import BAD_JSON, INVALID, NOT_FOUND, NOT_JSON, TOO_LARGE, ProblemType

Answer = Callable[[Call], Awaitable[Response]]

READ: Final = frozenset({Permission.READ})
OPERATE: Final = frozenset({Permission.OPERATE})
ADMINISTER: Final = frozenset({Permission.ADMINISTER})

NAME: Final[Described] = {"type": "string", "minLength": 1}
_REPEATABLE: Final = description.repeatable(
    "A repeat of the same request under the same key, within 24 hours, is answered with the first operation."
)
_WITH_BODY = (BAD_JSON, TOO_LARGE, NOT_JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRoute:
    """One route of a room, as data; `document` is what it answers with, `started` where it answers 202."""

    method: str
    path: str
    name: str
    summary: str
    allowed: frozenset[Permission]
    document: str
    query: type[Parameters] = NoParameters
    body: str | None = None
    started: bool = False
    dry_run: str | None = None
    problems: tuple[ProblemType, ...] = ()
    parameters: tuple[Described, ...] = ()
    tagged: bool = False
    download: tuple[str, ...] = ()
    unbound: bool = False

    def to(self, answer: Answer) -> Route:
        """The route with what answers it."""
        return Route(
            method=self.method,
            path=f"/admin/dlq{self.path}",
            name=self.name,
            summary=self.summary,
            allowed=self.allowed,
            answer=answer,
            described=self._described(),
            status=202 if self.started else 200,
            unbound=self.unbound,
        )

    def _described(self) -> Described:
        headers = [*self.parameters, *([_REPEATABLE] if self.started else [])]
        described: Described = {
            "parameters": [*self._path_parameters(), *parameters(self.query), *headers],
            "responses": self._answers() | description.problems(self._problems()),
            "security": [{"key": []}],
        }
        if self.body is not None:
            content = {"application/json": {"schema": reference(self.body)}}
            described["requestBody"] = {"required": True, "content": content}
        return described

    def _path_parameters(self) -> list[Described]:
        names = [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
        return [{"name": name, "in": "path", "required": True, "schema": NAME} for name in names]

    def _problems(self) -> tuple[ProblemType, ...]:
        missing = (NOT_FOUND,) if "{" in self.path else ()
        given = _WITH_BODY if self.body is not None else ()
        return (*description.GUARDED, INVALID, *missing, *given, *self.problems)

    def _answers(self) -> Described:
        answers: Described = {}
        if self.download:
            schema = {"schema": {"type": "string"}}
            answers["200"] = {"description": "The file.", "content": dict.fromkeys(self.download, schema)}
            return answers
        if self.dry_run is not None:
            answers["200"] = description.document(self.dry_run)
        done = description.document(self.document)
        if self.started:
            where = {"Location": description.header("Where its progress can be asked.")}
            done["headers"] = where | description.replayed()
        if self.tagged:
            done["headers"] = {"ETag": description.header("Its version, for `If-Match`.")}
        answers["202" if self.started else "200"] = done
        return answers


def if_match(*, required: bool) -> dict[str, Any]:
    """The header that says which version is meant."""
    return {
        "name": "If-Match",
        "in": "header",
        "required": required,
        "schema": {"type": "string"},
        "description": "The `ETag` it had when it was read.",
    }
