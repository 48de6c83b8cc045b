"""The door of the dashboard: a cookie instead of a key, and for every form proof that a page of ours sent it.

The cookie is for this site alone (SameSite=Strict) and out of reach of scripts. A form has a token that only
who can read the session's pages knows, and the browser must say that it comes from this origin. Whoever is
not signed in is asked to; everything else that is refused is a page that says why.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.app import Redrive
from redrive.core.errors import RedriveError
from redrive.office.sessions import find_session
from redrive.web.access import Anyone, Gate, Route
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import FIELD, Form, Visit, read_form
from redrive.web.problems import FORBIDDEN, NOT_FOUND, Refusal, told

SESSION_COOKIE: Final = "redrive-session"
FORM_COOKIE: Final = "redrive-form"
_AROUND: Final = 1024 * 1024
_STRANGERS: Final = 64 * 1024
"""How large a form may be of who is not signed in."""


class PageDoor:
    """Lets visitors in, by the sessions of one store."""

    def __init__(self, app: Redrive, gate: Gate) -> None:
        self._app = app
        self.gate = gate
        self.renderer = Renderer(app)

    async def open(self, request: Request, route: Route) -> Response:
        """The page, the way to sign in, or a page that says why not."""
        visit = Visit(request, office=self._app.office)
        try:
            visit = await self._identified(request)
            if isinstance(route.allowed, Anyone):
                return await route.answer(await self._checked(visit))
            if visit.known is None:
                return _ask_to_sign_in(request)
            self.gate.check(visit.known, route.allowed, unbound=route.unbound)
            return await route.answer(await self._checked(visit))
        except Exception as error:  # noqa: BLE001 - whatever it is, a page says it
            return self.renderer.problem(visit, *told(error))

    async def lost(self, request: Request) -> Response:
        """A page for someone at an address that nothing has."""
        visit = Visit(request, office=self._app.office)
        try:
            visit = await self._identified(request)
            raise Refusal(NOT_FOUND, "no page has this address")
        except RedriveError as error:
            return self.renderer.problem(visit, *told(error))

    async def _identified(self, request: Request) -> Visit:
        token = request.cookies.get(SESSION_COOKIE, "")
        found = await find_session(self._app.store, token) if token else None
        if found is None:
            return Visit(request, office=self._app.office)
        session, key = found
        return Visit(request, key, self._app.office, session, token)

    async def _checked(self, visit: Visit) -> Visit:
        """The visit with its form, where it sends one that is ours."""
        if visit.request.method != "POST":
            return visit
        _check_origin(visit.request)
        most = _STRANGERS if visit.known is None else self._app.settings.submit.body_bytes * 3 + _AROUND
        form = await read_form(visit.request, most)
        _check_token(visit, form)
        return Visit(visit.request, visit.known, visit.office, visit.session, visit.token, form)


def _check_origin(request: Request) -> None:
    """Refusal when another site sends this; where the browser does not say so, its Origin does."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise _foreign("another site sent this form")
        return
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) != request.headers.get("host"):
        raise _foreign("another site sent this form")


def _host(address: str) -> str | None:
    """The host and port of an address; None where it cannot be read."""
    try:
        return urlsplit(address).netloc
    except ValueError:
        return None


def _check_token(visit: Visit, form: Form) -> None:
    """Before a session there is one, a cookie of the form's own stands for it."""
    expected = visit.form_token or visit.request.cookies.get(FORM_COOKIE, "")
    if not expected or not hmac.compare_digest(form.text("token").encode(), expected.encode()):
        raise _foreign("the form is not of a page that was read in this session")


def new_form_token() -> str:
    """For a form of someone who is not signed in."""
    return secrets.token_urlsafe(32)


def set_cookie(response: Response, request: Request, name: str, value: str, lasts_s: int | None) -> None:
    """A cookie for this site alone; None: until the browser closes."""
    response.set_cookie(
        name,
        value,
        max_age=lasts_s,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def local_path(text: str) -> str:
    """A path of these pages to go to; the overview in place of anything else."""
    plain = text.startswith("/") and text.isprintable() and "\\" not in text and len(text) <= FIELD
    return text if plain and _host(text) == "" else "/"


def redirect(path: str) -> Response:
    """Go to another page, by reading it."""
    return RedirectResponse(path, 303)


def _ask_to_sign_in(request: Request) -> Response:
    if request.method != "GET" or request.headers.get("sec-fetch-mode") == "cors":
        return Response("sign in first\n", 401, media_type="text/plain")
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    following = "" if path == "/" else f"?next={quote(path, safe='')}"
    return redirect(f"/sign-in{following}")


def _foreign(detail: str) -> Refusal:
    return Refusal(FORBIDDEN, f"{detail}: open the page again and repeat what you did")
