"""Keys and who is signed in, for admins. A key is revoked in two steps: a page that asks, then its form."""

from __future__ import annotations

from starlette.responses import Response

from redrive.office.access import Role
from redrive.office.documents.access import key_document, key_list, session_list
from redrive.web.admin.route import ADMINISTER
from redrive.web.pages.door import redirect
from redrive.web.pages.render import Renderer
from redrive.web.pages.visit import PageRoute, Visit
from redrive.web.problems import INVALID, NOT_FOUND, FieldError, Refusal


class KeyPages:
    """The routes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/keys", answer=self.every, allowed=ADMINISTER, unbound=True),
            PageRoute(path="/keys", answer=self.change, allowed=ADMINISTER, method="POST", unbound=True),
            PageRoute(path="/keys/{id}/revoke", answer=self.ask, allowed=ADMINISTER, unbound=True),
        ]

    async def every(self, visit: Visit) -> Response:
        return await self._every(visit)

    async def change(self, visit: Visit) -> Response:
        """Make a key, whose text is on this page and nowhere else; revoke one; end a session."""
        form, acting = visit.form, visit.acting
        match form.text("verb"):
            case "create":
                return await self._every(visit, await _create(visit))
            case "revoke":
                found = await acting.access.revoke(form.text("key")) is not None
            case "end":
                found = await acting.sessions.revoke(form.text("session"))
            case _:
                raise form.unknown_verb()
        if not found:
            raise Refusal(NOT_FOUND, "there is no such key or session")
        return redirect("/keys")

    async def ask(self, visit: Visit) -> Response:
        """What ends with a key, before it is revoked."""
        acting = visit.acting
        key = await acting.access.find(visit.named("id"))
        if key is None or not key.lives(visit.now):
            raise Refusal(NOT_FOUND, "there is no such key, or it has ended")
        sessions = [one for one in await acting.sessions.list() if one.key == key.id]
        return self._renderer.page(
            visit,
            "revoke_key.html",
            one=key_document(key),
            signed_in=len(sessions),
            own=visit.credential.id == key.id,
        )

    async def _every(self, visit: Visit, made: str | None = None) -> Response:
        acting = visit.acting
        living = [key for key in await acting.access.list() if key.lives(visit.now)]
        return self._renderer.page(
            visit,
            "keys.html",
            keys=key_list(living).keys,
            sessions=session_list(await acting.sessions.list()).sessions,
            made=made,
            roles=[one.value for one in Role],
        )


async def _create(visit: Visit) -> str:
    """A new key's text."""
    form = visit.form
    if form.text("role") not in list(Role):
        raise Refusal(INVALID, "no key was made", [FieldError("role", "is not a role")])
    tenant = form.text("tenant").strip() or None
    _, text = await visit.acting.access.create(Role(form.text("role")), tenant, form.text("name").strip())
    return text
