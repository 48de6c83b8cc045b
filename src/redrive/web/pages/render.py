"""Templates in, HTML out. Everything that is inserted is escaped; no template may mark a text as safe.

What every template has: the texts in the visitor's language, the visitor, what may be shown to them, and the
addresses of our style sheet and module, which change with their content and are kept by the browser.
"""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import Response

from redrive.app import Redrive
from redrive.office.filters import Filter
from redrive.office.groups import GroupBy, group_term
from redrive.version import __version__
from redrive.web.pages.catalogue import Texts, preferred_language
from redrive.web.pages.plots import Bars, sparkline
from redrive.web.pages.visit import Visit
from redrive.web.problems import Refusal

LANGUAGE_COOKIE: Final = "redrive-language"
THEME_COOKIE: Final = "redrive-theme"
THEMES: Final = ("auto", "light", "dark")
_ASSETS: Final = {"pages.css": "text/css", "pages.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class Assets:
    """Our style sheet, module and icon, read once."""

    def __init__(self) -> None:
        folder = files("redrive.web.pages") / "static"
        self._files = {name: (folder / name).read_bytes() for name in _ASSETS}

    def address(self, name: str) -> str:
        """Where a file is; another address for another content."""
        return f"/static/{sha256(self._files[name]).hexdigest()[:12]}/{name}"

    def answer(self, name: str) -> Response | None:
        """The file, or None when there is none of this name."""
        if name not in self._files:
            return None
        return Response(self._files[name], headers={"Cache-Control": _FOR_EVER}, media_type=_ASSETS[name])


class Renderer:
    """Renders the pages of one app."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self.assets = Assets()

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=PackageLoader("redrive.web.pages"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["brief"] = brief
        environment.filters["path"] = lambda text: quote(str(text), safe="")
        environment.globals.update(
            asset=self.assets.address,
            address=address,
            group_filter=group_filter,
            narrowed=narrowed,
            sparkline=sparkline,
            Bars=Bars,
            version=__version__,
            themes=THEMES,
        )
        return environment

    def page(
        self,
        visit: Visit,
        template: str,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> Response:
        """A page for a visitor."""
        texts = self.texts(visit)
        html = self._environment.get_template(template).render(
            t=texts, visit=visit, theme=theme_of(visit), here=_here(visit), **values
        )
        return Response(html, status, headers, media_type="text/html")

    def texts(self, visit: Visit) -> Texts:
        """The texts in the language that a visitor chose, or that their browser prefers."""
        request = visit.request
        language = preferred_language(
            request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", "")
        )
        return Texts(language, self._app.store.now())

    def problem(self, visit: Visit, refused: Refusal, instance: str) -> Response:
        """A page that says what is wrong and what to do."""
        return self.page(
            visit,
            "problem.html",
            status=refused.kind.status,
            headers=dict(refused.headers),
            refused=refused,
            instance=instance if refused.kind.status >= 500 else None,
        )


def theme_of(visit: Visit) -> Literal["auto", "light", "dark"]:
    """Light or dark as chosen; otherwise as the visitor's machine has it."""
    match visit.request.cookies.get(THEME_COOKIE):
        case "light":
            return "light"
        case "dark":
            return "dark"
        case _:
            return "auto"


def brief(document: Any) -> str:
    """A small document in one line."""
    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)


def address(path: str, **query: Any) -> str:
    """A path with those of the parameters that have a value."""
    given = [(name, one) for name, value in query.items() for one in _each(value)]
    return f"{path}?{urlencode(given)}" if given else path


def group_filter(by: str, key: str, within: str) -> str | None:
    """The filter that means a group's letters, of those that another one means; None where there is none."""
    term = group_term(GroupBy(by), key)
    if term is None:
        return None
    return narrowed(str(Filter((term,))), within)


def narrowed(term: str, within: str) -> str:
    """Both: a filter may hold an OR, which stands in parentheses beside anything else."""
    return f"({within}) {term}" if within else term


def _each(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _here(visit: Visit) -> str:
    url = visit.request.url
    return url.path + (f"?{url.query}" if url.query else "")
