"""The admin API as the operator's hand: `redrive serve shop:app`, and a client with the key it made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.office.story.hands import Document
from tests.office.story.site import Site, first_document

_STANDS = ("halted", "paused", "cancelled", "failed")


def _text(file: str) -> str:
    return Path(file).read_text("utf-8").strip()


class Http:
    """One server that runs the handlers too, and requests to it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._client = httpx.AsyncClient()

    async def begin(self) -> None:
        process = self._site.start("serve", "shop:app", "--listen", "127.0.0.1:0", "--json")
        document = first_document(process)
        self._client.base_url = httpx.URL(f"{document['url']}/admin/dlq")
        self._client.headers["Authorization"] = f"Bearer {_text(document['adminKeyFile'])}"

    async def end(self) -> None:
        await self._client.aclose()

    async def groups(self, filter: str = "") -> list[Document]:  # noqa: A002 - as the parameter
        return list((await self._get("/groups", filter=filter))["groups"])

    async def letter(self, message_id: str) -> Document:
        return await self._get(f"/letters/{message_id}")

    async def preview(self, filter: str) -> Document:  # noqa: A002
        order = {"kind": "redrive", **_which(filter)}
        answer = await self._client.post("/operations", params={"dryRun": "true"}, json=order)
        return _document(answer, 200)

    async def redrive(self, filter: str, *, canary: int, rate: str) -> str:  # noqa: A002
        order = {"kind": "redrive", **_which(filter), "canary": canary, "rate": rate}
        answer = await self._client.post("/operations", json=order)
        started = str(_document(answer, 202)["id"])
        assert answer.headers["Location"] == f"/admin/dlq/operations/{started}"
        return started

    async def operation(self, operation_id: str) -> Document:
        return await self._get(f"/operations/{operation_id}")

    async def wait(self, operation_id: str) -> Document:
        seen: Document = {}

        async def stands() -> bool:
            seen.update(await self.operation(operation_id))
            known = seen["state"] == "finished" and seen["outstanding"] == 0
            return known or seen["state"] in _STANDS

        await self._site.wait_until(stands, f"operation {operation_id} stands or has ended")
        return seen

    async def tell(self, operation_id: str, verb: str) -> Document:
        return _document(await self._client.post(f"/operations/{operation_id}/{verb}"), 200)

    async def note(self, fingerprint: str, text: str) -> None:
        group = {"by": "fingerprint", "key": fingerprint}
        _document(await self._client.post("/group/notes", params=group, json={"text": text}), 200)

    async def audit(self) -> list[Document]:
        return list((await self._get("/audit", limit="500"))["rows"][::-1])

    async def verify(self) -> Document:
        return await self._get("/audit/verify")

    async def _get(self, path: str, **query: str) -> Document:
        return _document(await self._client.get(path, params=query), 200)


def _which(filter: str) -> dict[str, Any]:  # noqa: A002
    return {"filter": filter} if filter else {"all": True}


def _document(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    return dict(answer.json())
