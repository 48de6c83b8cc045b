"""What the OpenAPI document says of an operation: parameters, bodies, answers and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from redrive.web import idempotency
from redrive.web.problems import (
    BAD_JSON,
    CONFLICT,
    FORBIDDEN,
    INVALID,
    MEDIA_TYPE,
    NOT_FOUND,
    NOT_JSON,
    RATE_LIMITED,
    TOO_LARGE,
    UNAUTHENTICATED,
    UNAVAILABLE,
    ProblemType,
)

Described = dict[str, Any]

ID: Final[Described] = {"type": "string", "description": "The id that the submit answered with."}
QUEUE: Final[Described] = {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}
SECURITY: Final[Described] = {"key": {"type": "http", "scheme": "bearer", "description": "A key: `rdk_…`."}}

GUARDED = (
    UNAUTHENTICATED,
    FORBIDDEN,
    RATE_LIMITED,
    UNAVAILABLE,
)
_SUBMITTING = (
    BAD_JSON,
    *GUARDED,
    CONFLICT,
    TOO_LARGE,
    NOT_JSON,
    INVALID,
)


def submitting(body: Described, answer: Described, *, location: bool = False) -> Described:
    """A POST that accepts something."""
    accepted: Described = {
        "description": "Durably stored.",
        "content": {"application/json": {"schema": answer}},
        "headers": replayed(),
    }
    if location:
        accepted["headers"]["Location"] = header("Where its state can be asked.")
    return {
        "parameters": [
            repeatable("A repeat of the same body under the same key is answered with the first ids.")
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"202": accepted} | problems(_SUBMITTING),
        "security": [{"key": []}],
    }


def repeatable(text: str) -> Described:
    """The header that makes a repeat safe."""
    return {
        "name": idempotency.HEADER,
        "in": "header",
        "schema": {"type": "string", "pattern": f"^[!-~]{{1,{idempotency.LENGTH}}}$"},
        "description": text,
    }


def replayed() -> Described:
    """The header of an answer that was given before."""
    return {idempotency.REPLAYED: header("`true` when the request was accepted before.")}


def reading(answer: str, *more: ProblemType) -> Described:
    """A GET of a document, with a key."""
    return {
        "responses": {"200": document(answer)} | problems((*GUARDED, NOT_FOUND, *more)),
        "security": [{"key": []}],
    }


def public(answer: str) -> Described:
    """A GET of a document, without a key."""
    return {"responses": {"200": document(answer)} | problems((UNAVAILABLE,)), "security": []}


def with_path(described: Described, name: str, schema: Mapping[str, Any]) -> Described:
    """The same with a parameter in the path."""
    parameter = {"name": name, "in": "path", "required": True, "schema": schema}
    return described | {"parameters": [parameter, *described.get("parameters", [])]}


def reference(name: str) -> Described:
    """A schema by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def document(name: str) -> Described:
    """An answer that is a document."""
    return {"description": "The document.", "content": {"application/json": {"schema": reference(name)}}}


def problems(kinds: tuple[ProblemType, ...]) -> Described:
    """The answers that are problems, by status; of several with one status the first is described."""
    return {str(kind.status): _problem(kind) for kind in reversed(kinds)}


def _problem(kind: ProblemType) -> Described:
    return {
        "description": f"{kind.title}. {kind.advice}",
        "content": {MEDIA_TYPE: {"schema": reference("ProblemDocument")}},
    }


def header(text: str) -> Described:
    """A header of an answer."""
    return {"description": text, "schema": {"type": "string"}}
