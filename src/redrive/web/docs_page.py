"""The docs page: the OpenAPI document and the problems as one page, made on the server.

No script, nothing from elsewhere: it reads the same with the network unplugged.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from redrive.web.access import PUBLIC, Call, Route
from redrive.web.answers import respond
from redrive.web.problem_types import PROBLEMS

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


def _render(document: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=PackageLoader("redrive.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["type_of"] = type_of
    return environment.get_template("docs.html").render(api=document, problems=PROBLEMS)
