"""Signing in with a key or a link, signing out, and choosing a language and a theme."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from redrive.app import Redrive
from redrive.office.access import Credential
from redrive.office.sessions import SESSION_LASTS, SignInRefused, redeem_link
from redrive.web.access import PUBLIC, Gate
from redrive.web.limits import is_here
from redrive.web.pages.catalogue import Language
from redrive.web.pages.door import (
    FORM_COOKIE,
    SESSION_COOKIE,
    local_path,
    new_form_token,
    redirect,
    set_cookie,
)
from redrive.web.pages.render import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, Renderer
from redrive.web.pages.visit import PageRoute, Visit
from redrive.web.problems import NOT_FOUND, RATE_LIMITED, Refusal

_YEAR_S: Final = 365 * 86_400


class SignInPages:
    """The pages that need nobody to be signed in."""

    def __init__(self, app: Redrive, gate: Gate, renderer: Renderer, *, proxied: bool) -> None:
        self._app = app
        self._gate = gate
        self._renderer = renderer
        self._proxied = proxied

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/sign-in", answer=self.ask, allowed=PUBLIC),
            PageRoute(path="/sign-in", answer=self.sign_in, allowed=PUBLIC, method="POST"),
            PageRoute(path="/sign-out", answer=self.sign_out, allowed=PUBLIC, method="POST"),
            PageRoute(path="/link/{token}", answer=self.link, allowed=PUBLIC),
            PageRoute(path="/preferences", answer=self.prefer, allowed=PUBLIC, method="POST"),
            PageRoute(path="/static/{version}/{name}", answer=self.asset, allowed=PUBLIC),
        ]

    async def ask(self, visit: Visit) -> Response:
        return self._form(visit, visit.query.get("next", "/"))

    async def sign_in(self, visit: Visit) -> Response:
        following = visit.form.text("next", "/")
        try:
            key = await self._gate.identify(visit.request, visit.form.text("key").strip())
        except Refusal as refused:
            wrong = "sign_in.slow" if refused.kind is RATE_LIMITED else "sign_in.wrong"
            return self._form(visit, following, wrong, refused.kind.status)
        try:
            return await self._let_in(visit, key, redirect(local_path(following)))
        except SignInRefused:
            return self._form(visit, following, "sign_in.submit_key", 403)

    async def link(self, visit: Visit) -> Response:
        if visit.request.method == "HEAD":
            return Response()  # a program that looks where the link leads does not use it up
        local = is_here(visit.request, proxied=self._proxied)
        key = await redeem_link(self._app.store, visit.named("token"), local=local)
        if key is None:
            self._gate.count_stranger(visit.request)
            return self._form(visit, "/", "sign_in.used_link", 403)
        # A redirect would still count as coming from wherever the link stood, and leave the cookie behind.
        return await self._let_in(visit, key, self._renderer.page(visit, "signed_in.html"))

    async def sign_out(self, visit: Visit) -> Response:
        if visit.session is not None:
            await visit.acting.sessions.revoke(visit.session.id)
        response = redirect("/sign-in")
        response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
        return response

    async def prefer(self, visit: Visit) -> Response:
        response = redirect(local_path(visit.form.text("next", "/")))
        if (language := visit.form.text("language")) in list(Language):
            set_cookie(response, visit.request, LANGUAGE_COOKIE, language, _YEAR_S)
        if (theme := visit.form.text("theme")) in THEMES:
            set_cookie(response, visit.request, THEME_COOKIE, theme, _YEAR_S)
        return response

    async def asset(self, visit: Visit) -> Response:
        found = self._renderer.assets.answer(visit.named("name"))
        if found is None:
            raise Refusal(NOT_FOUND, "there is no such file")
        return found

    async def _let_in(self, visit: Visit, key: Credential, response: Response) -> Response:
        known = Visit(visit.request, key, self._app.office)
        _, token = await known.acting.sessions.open(key)
        lasts_s = round(SESSION_LASTS.total_seconds())
        set_cookie(response, visit.request, SESSION_COOKIE, token, lasts_s)
        response.delete_cookie(FORM_COOKIE, httponly=True, samesite="strict")
        return response

    def _form(self, visit: Visit, following: str, problem: str | None = None, status: int = 200) -> Response:
        token = visit.form_token or visit.request.cookies.get(FORM_COOKIE) or new_form_token()
        response = self._renderer.page(
            visit,
            "sign_in.html",
            status=status,
            following=local_path(following),
            problem=problem,
            first_token=token,
        )
        if not visit.form_token:
            set_cookie(response, visit.request, FORM_COOKIE, token, None)
        return response
