"""What stands behind the question mark of an address: checked like a body, and described from the same type.

A parameter that is unknown, given twice or does not fit is refused: a mistyped `limt` never means "all".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from redrive.core.ports import PAGE
from redrive.web.access import Call
from redrive.web.documents import misfit
from redrive.web.problems import INVALID, FieldError, Refusal

Flag = Literal["true", "false"]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE, description=f"How many at most, 1 to {PAGE}.")]
FilterText = Annotated[str, msgspec.Meta(max_length=2_000, description="Which letters; empty: all.")]
Cursor = Annotated[str, msgspec.Meta(max_length=500, description="The `cursor` of the page before.")]
Reveal = Annotated[
    Flag, msgspec.Meta(description="Without masks; needs the permission to reveal, and is in the audit.")
]
DryRun = Annotated[Flag, msgspec.Meta(description="Only say what would be taken: nothing is started.")]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The parameters of a route, each of which stands there once."""


T = TypeVar("T", bound=Parameters)


class NoParameters(Parameters, frozen=True):
    """A route without parameters."""


def asked(call: Call, kind: type[T]) -> T:
    """The parameters of a call, or Refusal."""
    given = call.request.query_params.multi_items()
    twice = {name for name, _ in given if [one for one, _ in given].count(name) > 1}
    if twice:
        errors = [FieldError(name[:80], "is given more than once") for name in sorted(twice)]
        raise Refusal(INVALID, "the address cannot be used: see errors", errors)
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(INVALID, "the address cannot be used: see errors", [misfit(error)]) from None


def parameters(kind: type[Parameters]) -> list[dict[str, Any]]:
    """The same for the OpenAPI document."""
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": inner}
        for name, inner in schema.get("properties", {}).items()
    ]
