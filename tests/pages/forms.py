"""Forms without a browser: read the page, take its token, send it."""

from __future__ import annotations

import re

import httpx

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def form_token(page: httpx.Response) -> str:
    """The token that every form of a page carries."""
    found = re.search(r'name="token" value="([^"]+)"', page.text)
    assert found is not None, page.text[:500]
    return found[1]


async def sign_in(client: httpx.AsyncClient, key: str, next_page: str = "/") -> httpx.Response:
    """Send the sign-in form as a browser does."""
    token = form_token(await client.get("/sign-in"))
    return await client.post(
        "/sign-in",
        data={"token": token, "key": key, "next": next_page},
        headers=SAME_ORIGIN,
    )


def sign_in_now(client: httpx.Client, key: str) -> None:
    """The same, and it has to work."""
    data = {"token": form_token(client.get("/sign-in")), "key": key}
    assert client.post("/sign-in", data=data, headers=SAME_ORIGIN).status_code == 303
