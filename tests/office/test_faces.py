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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from redrive import Redrive
from redrive.cli import run
from redrive.config import load
from redrive.config.keys import VARIABLES
from redrive.core.lanes import LaneChange
from redrive.core.letters import MessagePhase
from redrive.core.limits import Rate
from redrive.core.ports import Store
from redrive.office.access import Role
from redrive.office.audit import AUDIT, Actor, Query
from redrive.office.documents.control import lane_document, row_document, sql_document
from redrive.office.documents.groups import said_document
from redrive.office.documents.messages import RemovedMessages
from redrive.office.documents.operations import preview_document
from redrive.office.export import Format
from redrive.office.groups import GroupBy
from redrive.office.office import ActingOffice
from redrive.office.operations import OperationKind, Order, Selection
from redrive.web.server import serve
from tests.conformance.makers import dead, submit
from tests.waiting import wait_until

ANA = Actor("ana@host", "test")
FINGERPRINT = "f" * 16
SECRET = b'{"password": "hunter2", "n": 7}'
_ENDS = frozenset(("finished", "failed", "cancelled"))
_MADE = {"createdAt", "endedAt", "perSecond", "secondsLeft", "unattended", "actor", "origin", "by", "at"}
_MADE |= {"action", "previous", "hash", "position", "files", "file", "sha256", "operation"}


@dataclass(frozen=True)
class Filled:
    """A store with letters of two tenants, a waiting message, and an operation that nobody carries on."""

    file: Path
    key: str
    letters: tuple[str, ...]
    waiting: str
    operation: str

    def fit(self, text: str) -> str:
        return text.format(id=self.letters[0], other=self.letters[1], waiting=self.waiting, op=self.operation)


@dataclass(frozen=True)
class Act:
    """What is done by each face, and what of the command line's answer the others give too.

    `http` is a method, an address and a body. Without one, the act is not for callers from outside.
    """

    name: str
    cli: tuple[str, ...]
    python: Callable[[ActingOffice, Filled], Awaitable[Any]]
    http: tuple[str, str, Any] | None = None
    of_cli: Callable[[Any], Any] = lambda answer: answer
    of_http: Callable[[Any], Any] = lambda answer: answer


async def _operate(office: ActingOffice, order: Order) -> Any:
    started = await office.operations.start(order)
    return office.operations.document(await office.operations.wait(started.id))


async def _find(office: ActingOffice, _: Filled) -> Any:
    return (await office.letters.find("tenant:acme", limit=5)).document.letters


async def _show(office: ActingOffice, filled: Filled) -> Any:
    return (await office.letters.show(filled.letters[0])).document


async def _reveal(office: ActingOffice, filled: Filled) -> Any:
    return (await office.letters.show(filled.letters[0], reveal=True)).document


async def _message(office: ActingOffice, filled: Filled) -> Any:
    return (await office.messages.show(filled.waiting)).document


async def _messages(office: ActingOffice, _: Filled) -> Any:
    return (await office.message_list.page(MessagePhase.WAITING, tenant="acme")).document


async def _remove_waiting(office: ActingOffice, _: Filled) -> Any:
    done = await office.message_list.remove("acme")
    return RemovedMessages(company_id=done.tenant, removed=done.removed, waiting=done.waiting)


async def _export(office: ActingOffice, _: Filled) -> Any:
    chosen = Selection(filter="tenant:acme", limit=5)
    pieces = [one.data async for one in office.letters.export(chosen, Format.JSONL)]
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


async def _shape(office: ActingOffice, _: Filled) -> Any:
    return (await office.letters.shape()).document.tenants


async def _groups(office: ActingOffice, _: Filled) -> Any:
    return (await office.groups.find(GroupBy.TENANT)).document.groups


async def _note(office: ActingOffice, _: Filled) -> Any:
    return said_document(await office.groups.note(GroupBy.FINGERPRINT, FINGERPRINT, "seen"))


async def _resolve(office: ActingOffice, _: Filled) -> Any:
    return said_document(await office.groups.resolve(GroupBy.FINGERPRINT, FINGERPRINT))


async def _redrive(office: ActingOffice, _: Filled) -> Any:
    return await _operate(office, Order(OperationKind.REDRIVE, Selection(filter="tenant:acme")))


async def _redrive_ids(office: ActingOffice, filled: Filled) -> Any:
    return await _operate(office, Order(OperationKind.REDRIVE, Selection(ids=filled.letters[:2])))


async def _discard(office: ActingOffice, _: Filled) -> Any:
    return await _operate(
        office, Order(OperationKind.DISCARD, Selection(filter="tenant:globex"), expired=True)
    )


async def _preview(office: ActingOffice, _: Filled) -> Any:
    return preview_document(await office.operations.preview(Order(OperationKind.REDRIVE)))


async def _archive(office: ActingOffice, filled: Filled) -> Any:
    folder = str(filled.file.parent / "kept")
    return await _operate(
        office, Order(OperationKind.ARCHIVE, Selection(filter="tenant:acme"), expired=True, file=folder)
    )


async def _pause(office: ActingOffice, filled: Filled) -> Any:
    await office.operations.pause(filled.operation)
    return office.operations.document(await office.operations.show(filled.operation))


async def _cancel(office: ActingOffice, filled: Filled) -> Any:
    await office.operations.cancel(filled.operation)
    return office.operations.document(await office.operations.show(filled.operation))


async def _operations(office: ActingOffice, _: Filled) -> Any:
    return (await office.operations.list(limit=5)).document.operations


async def _pause_queue(office: ActingOffice, _: Filled) -> Any:
    return {"queue": await office.queues.pause("orders:dlq"), "state": "paused"}


async def _pause_tenant(office: ActingOffice, _: Filled) -> Any:
    return [lane_document(lane) for lane in await office.tenants.pause("acme")]


async def _set_tenant(office: ActingOffice, _: Filled) -> Any:
    change = LaneChange(weight=3, rate=Rate.parse("100/min"))
    return [lane_document(lane) for lane in await office.tenants.set("acme", "orders", change)]


async def _sql(office: ActingOffice, _: Filled) -> Any:
    answer = await office.sql.ask("SELECT jobId, originalData FROM dlq ORDER BY jobId")
    return sql_document(answer)


async def _audit(office: ActingOffice, _: Filled) -> Any:
    rows = await office.audit.latest(Query(verb="redrive"), 5)
    return [row_document(row) for row in rows[::-1]]


async def _run_now(office: ActingOffice, filled: Filled) -> Any:
    return await office.messages.run_now(await office.messages.find(filled.waiting))


async def _remove(office: ActingOffice, filled: Filled) -> Any:
    return await office.messages.cancel(await office.messages.find(filled.waiting))


def _operation(answer: Any) -> Any:
    return answer["operation"]


def _said(answer: Any) -> Any:
    return {name: value for name, value in answer.items() if name != "key"}


ALL = ("--yes",)
GROUP = f"/group?by=fingerprint&key={FINGERPRINT}"
ORDERED = {"filter": "tenant:acme", "kind": "redrive"}
ACTS = (
    Act(
        "find",
        ("dlq", "list", "--filter", "tenant:acme"),
        _find,
        ("GET", "/letters?filter=tenant:acme", None),
        lambda told: told["letters"],
        lambda told: told["letters"],
    ),
    Act(
        "show",
        ("dlq", "show", "{id}"),
        _show,
        ("GET", "/letters/{id}", None),
    ),
    Act(
        "reveal",
        ("dlq", "show", "{id}", "--reveal"),
        _reveal,
        ("GET", "/letters/{id}?reveal=true", None),
    ),
    Act(
        "show a message",
        ("show", "{waiting}", "--body"),
        _message,
        ("GET", "/messages/{waiting}", None),
    ),
    Act(
        "list messages",
        ("messages", "list", "--tenant", "acme"),
        _messages,
        ("GET", "/messages?tenant=acme", None),
    ),
    Act(
        "remove what waits",
        ("messages", "remove", "--tenant", "acme", "--yes"),
        _remove_waiting,
        ("POST", "/messages/remove?tenant=acme", None),
    ),
    Act(
        "export",
        ("dlq", "export", "-", "--filter", "tenant:acme", "--limit", "5"),
        _export,
        ("GET", "/export?filter=tenant:acme&limit=5", None),
    ),
    Act(
        "shape",
        ("dlq", "shape"),
        _shape,
        ("GET", "/shape", None),
        lambda told: told["tenants"],
        lambda told: told["tenants"],
    ),
    Act(
        "groups",
        ("dlq", "groups", "--by", "tenant"),
        _groups,
        ("GET", "/groups?by=tenant", None),
        lambda told: told["groups"],
        lambda told: told["groups"],
    ),
    Act(
        "note",
        ("dlq", "group", "note", FINGERPRINT, "seen"),
        _note,
        ("POST", GROUP.replace("?", "/notes?"), {"text": "seen"}),
        _said,
        lambda told: told["said"],
    ),
    Act(
        "resolve",
        ("dlq", "group", "resolve", FINGERPRINT),
        _resolve,
        ("PUT", GROUP, {"state": "resolved"}),
        _said,
        lambda told: told["said"],
    ),
    Act(
        "preview",
        ("dlq", "redrive", "--all", "--dry-run"),
        _preview,
        ("POST", "/operations?dryRun=true", {"kind": "redrive", "filter": ""}),
        lambda told: told["preview"],
    ),
    Act(
        "re-drive by filter",
        ("dlq", "redrive", "--filter", "tenant:acme", *ALL),
        _redrive,
        ("POST", "/operations", ORDERED),
        _operation,
    ),
    Act(
        "re-drive by ids",
        ("dlq", "redrive", "{id}", "{other}", *ALL),
        _redrive_ids,
        ("POST", "/operations", {"kind": "redrive", "ids": ["{id}", "{other}"]}),
        _operation,
    ),
    Act(
        "discard",
        ("dlq", "discard", "--filter", "tenant:globex", *ALL),
        _discard,
        ("POST", "/operations", {"kind": "discard", "filter": "tenant:globex"}),
        _operation,
    ),
    Act(
        "archive",
        ("dlq", "archive", "--filter", "tenant:acme", "--folder", "kept", *ALL),
        _archive,
        None,
        _operation,
    ),
    Act("pause an operation", ("ops", "pause", "{op}"), _pause, ("POST", "/operations/{op}/pause", None)),
    Act("cancel an operation", ("ops", "cancel", "{op}"), _cancel, ("POST", "/operations/{op}/cancel", None)),
    Act(
        "list operations",
        ("ops", "list"),
        _operations,
        ("GET", "/operations", None),
        lambda told: told["operations"],
        lambda told: told["operations"],
    ),
    Act(
        "pause a queue",
        ("queue", "pause", "orders:dlq"),
        _pause_queue,
        ("POST", "/queues/orders:dlq/pause", None),
    ),
    Act(
        "pause a tenant",
        ("tenant", "pause", "acme"),
        _pause_tenant,
        ("POST", "/tenants/acme/pause", None),
        lambda told: told["lanes"],
        lambda told: told["queues"],
    ),
    Act(
        "set a tenant",
        ("tenant", "set", "acme", "--queue", "orders", "--weight", "3", "--rate", "100/min"),
        _set_tenant,
        ("PATCH", "/tenants/acme?queue=orders", {"weight": 3, "rate": "100/min"}),
        lambda told: told["lanes"],
        lambda told: told["queues"],
    ),
    Act(
        "sql",
        ("dlq", "sql", "SELECT jobId, originalData FROM dlq ORDER BY jobId"),
        _sql,
        ("POST", "/sql", {"sql": "SELECT jobId, originalData FROM dlq ORDER BY jobId"}),
        lambda told: {name: value for name, value in told.items() if name != "sql"},
    ),
    Act(
        "read the audit",
        ("audit", "list", "--verb", "redrive"),
        _audit,
        ("GET", "/audit?verb=redrive", None),
        lambda told: told["rows"],
        lambda told: told["rows"][::-1],
    ),
    Act("run now", ("run-now", "{waiting}"), _run_now, None, lambda told: told["result"] == "due now"),
    Act("remove", ("cancel", "{waiting}"), _remove, None, lambda told: told["result"] == "removed"),
)


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
