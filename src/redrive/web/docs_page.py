"""The docs page: the OpenAPI document and the problems as one page, made on the server.

No script, nothing from elsewhere: it reads the same with the network unplugged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from redrive.web.access import PUBLIC, Call, Route
from redrive.web.documents import respond
from redrive.web.problems import PROBLEMS

_MAIL = {"from": "Shop <shop@acme.example>", "to": ["ana@customer.example"], "text": "It left today."}
_SAMPLES: Mapping[str, Any] = {
    "SubmittedMail": _MAIL,
    "SubmittedMessage": {"payload": {"order": 4711}},
    "OrderBody": {"kind": "redrive", "filter": "tenant:acme"},
    "SqlBody": {"saved": "by-code"},
    "TenantChange": {"weight": 2},
}
_STYLE = files("redrive.web") / "static" / "docs.css"


class DocsPage:
    """The page and the document behind it, rendered once."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._page = _render(document)
        self._style = _STYLE.read_bytes()

    async def openapi(self, _: Call) -> Response:
        return respond(200, self._document)

    async def page(self, _: Call) -> Response:
        return Response(self._page, media_type="text/html")

    async def style(self, _: Call) -> Response:
        return Response(self._style, media_type="text/css")

    def routes(self) -> list[Route]:
        answers = {"/openapi.json": self.openapi, "/docs": self.page, "/docs/docs.css": self.style}
        return [
            Route(
                method="GET",
                path=path,
                name=answer.__name__,
                summary="",
                allowed=PUBLIC,
                answer=answer,
                described={},
                shown=False,
            )
            for path, answer in answers.items()
        ]


def type_of(schema: Mapping[str, Any]) -> str:
    """A schema in a few words: `string or list of string`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def who(operation: Mapping[str, Any]) -> str:
    """Who may call an operation, in words."""
    roles = operation.get("x-roles")
    if roles is None:
        return "Needs no key."
    bound = " that belongs to no tenant" if operation["x-unbound"] else ""
    return f"Needs a key with role {' or '.join(roles)}{bound}."


def example(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A call that can be copied, with what the operation requires and no more."""
    lines = [f"curl {'' if method == 'get' else f'-X {method.upper()} '}$REDRIVE{path}{_query(operation)}"]
    if "x-roles" in operation:
        lines.append('-H "Authorization: Bearer $KEY"')
    lines += [
        f"-H '{one['name']}: …'"
        for one in operation.get("parameters", [])
        if one["in"] == "header" and one.get("required")
    ]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(sample(schema, schemas))}'"]
    return " \\\n  ".join(lines)


def sample(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """The smallest document of a schema: its required fields."""
    if "$ref" in schema:
        name = type_of(schema)
        return _SAMPLES[name] if name in _SAMPLES else sample(schemas[name], schemas)
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        return sample(choices[0], schemas)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties[name], schemas) for name in schema.get("required", [])}
        case "array":
            return [sample(schema["items"], schemas)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "string":
            return "…"
    return {}


def _query(operation: Mapping[str, Any]) -> str:
    asked = [one for one in operation.get("parameters", []) if one["in"] == "query" and one.get("required")]
    return "?" + "&".join(f"{one['name']}={_word(one['schema'])}" for one in asked) if asked else ""


def _word(schema: Mapping[str, Any]) -> str:
    return str(schema.get("enum", ["…"])[0])


def _render(document: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=PackageLoader("redrive.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["type_of"] = type_of
    environment.filters["who"] = who
    environment.globals["example"] = example
    return environment.get_template("docs.html").render(api=document, problems=PROBLEMS)
