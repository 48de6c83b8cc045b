"""One office, three faces: the same act by command line, over HTTP and from Python has the same effect.

Every face gets its own copy of one store. Compared are the store, the new rows of the audit and the answer,
without what differs from run to run: who acts, instants, and the ids of what is made. The command line's
answer may say more than the others', around what is compared.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from redrive import Redrive
from redrive.cli import run
from redrive.config.keys import VARIABLES
from redrive.core.store import Store
from redrive.office.access import Role
from redrive.office.audit import AUDIT, Actor
from redrive.office.operations import OperationKind, Order, Selection
from redrive.web.server import serve
from redrive.wiring import load
from tests.conformance.makers import dead, submit
from tests.office.faces.act import Act, Filled
from tests.office.faces.control import CONTROL_ACTS
from tests.office.faces.letters import LETTER_ACTS
from tests.waiting import wait_until

ANA = Actor("ana@host", "test")
SECRET = b'{"password": "hunter2", "n": 7}'
_ENDS = frozenset(("finished", "failed", "cancelled"))
_MADE = {"createdAt", "endedAt", "perSecond", "secondsLeft", "unattended", "actor", "origin", "by", "at"}
_MADE |= {"action", "previous", "hash", "position", "files", "file", "sha256", "operation"}
_MADE |= {"asOf", "counted"}  # a command always counts first and carries that; the others may
ACTS = (*LETTER_ACTS, *CONTROL_ACTS)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    file = tmp_path_factory.mktemp("faces") / "redrive.db"

    async def fill() -> Filled:
        async with _app(file) as app:
            ids = [
                *await dead(app.store, 2, body=SECRET, tenant="acme"),
                *await dead(app.store, 2, tenant="globex"),
            ]
            (waiting,) = await submit(app.store, delay_s=3_600)
            office = app.office.acting(ANA)
            _, key = await office.access.create(Role.ADMIN, None)
            started = await office.operations.start(Order(OperationKind.REDRIVE, Selection(ids=("nobody",))))
            return Filled(file, key, tuple(ids), waiting, started.id)

    return asyncio.run(fill())


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
def test_every_face_does_the_same(
    act: Act,
    filled: Filled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    copies = {face: _copy(filled, tmp_path / face) for face in ("python", "cli", "http")}
    monkeypatch.chdir(copies["cli"].file.parent)
    answers = {
        "python": asyncio.run(_by_python(act, copies["python"])),
        "cli": _by_cli(act, copies["cli"], capsys),
    }
    if act.http is not None:
        answers["http"] = asyncio.run(_by_http(act, copies["http"], act.http))
    states = {face: asyncio.run(_state(copies[face])) for face in answers}
    for face, answer in answers.items():
        assert _plain(answer) == _plain(answers["python"]), face
        assert states[face] == states["python"], face


def _copy(filled: Filled, folder: Path) -> Filled:
    shutil.copytree(filled.file.parent, folder)
    return Filled(folder / filled.file.name, filled.key, filled.letters, filled.waiting, filled.operation)


def _app(file: Path) -> Redrive:
    return Redrive(settings=load({"store": f"sqlite:///{file}"}, environ={}, folder=file.parent))


async def _by_python(act: Act, filled: Filled) -> Any:
    async with _app(filled.file) as app:
        return msgspec.to_builtins(await act.python(app.office.acting(ANA, files=True), filled))


def _by_cli(act: Act, filled: Filled, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    code = run((*map(filled.fit, act.cli), "--store", f"sqlite:///{filled.file}", "--json"))
    told = capsys.readouterr()
    assert code == 0, told.err
    lines = [json.loads(line) for line in told.out.splitlines()] if act.name == "export" else None
    return act.of_cli(json.loads(told.out) if lines is None else lines)


async def _by_http(act: Act, filled: Filled, asked: tuple[str, str, Any]) -> Any:
    method, address, body = asked
    headers = {"Authorization": f"Bearer {filled.key}"}
    content = None if body is None else _json(filled, body)
    async with (
        _app(filled.file) as app,
        serve(app, "127.0.0.1:0") as server,
        httpx.AsyncClient(base_url=server.url, headers=headers) as client,
    ):
        url = f"/admin/dlq{filled.fit(address)}"
        kind = {"Content-Type": "application/json"}
        answer = await client.request(method, url, content=content, headers=kind)
        assert answer.status_code < 300, answer.text
        if answer.status_code == 202:
            return await _ended(app, client, answer.headers["location"])
        if act.name == "export":
            return [json.loads(line) for line in answer.text.splitlines()]
        return act.of_http(answer.json())


def _json(filled: Filled, body: Any) -> str:
    """A body with the ids of this store."""
    text = json.dumps(body)
    return text.replace("{id}", filled.letters[0]).replace("{other}", filled.letters[1])


async def _ended(app: Redrive, client: httpx.AsyncClient, where: str) -> Any:
    """The operation once this process has carried it out, and no other."""
    office = app.office.acting(ANA)
    await office.operations.wait(where.rpartition("/")[2])

    async def ends() -> bool:
        return (await client.get(where)).json()["state"] in _ENDS

    await wait_until(ends, 10, "the operation has ended")
    return (await client.get(where)).json()


async def _state(filled: Filled) -> Any:
    """What a store came to: its messages, queues, tenants and groups, and the audit."""
    async with _app(filled.file) as app:
        store = app.store
        accounts = [await store.get(one) for one in (*filled.letters, filled.waiting)]
        return {
            "messages": [
                one
                and (one.state, one.progress.generation, one.removal and one.removal.move, len(one.redrives))
                for one in accounts
            ],
            "queues": [(one.queue, one.state, one.dlq, one.pending) for one in await store.queues()],
            "tenants": [
                (lane.tenant, lane.state, lane.weight, lane.rate) for lane in await store.lanes("orders")
            ],
            "groups": [_plain(dict(one.document)) for one in await store.list_records("group")],
            "audit": _plain(await _audited(store)),
        }


async def _audited(store: Store) -> list[Any]:
    return [dict(row.document) for row in await store.read_journal(AUDIT)]


def _plain(told: Any) -> Any:
    """Without what differs from run to run."""
    if isinstance(told, dict):
        kept = {name: _plain(value) for name, value in told.items() if name not in _MADE}
        return {name: value for name, value in kept.items() if name != "id" or "kind" not in told}
    if isinstance(told, str):
        return re.sub(r"^(paused|cancelled) by .*", r"\1", told)
    return [_plain(one) for one in told] if isinstance(told, list | tuple) else told
