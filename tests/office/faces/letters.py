"""What is done with dead letters, by each face."""

from __future__ import annotations

import json
from typing import Any

from redrive.office.documents.groups import said_document
from redrive.office.documents.operations import preview_document
from redrive.office.export import Format
from redrive.office.groups import GroupBy
from redrive.office.office import ActingOffice
from redrive.office.operations import OperationKind, Order, Selection
from tests.office.faces.act import FINGERPRINT, Act, Filled

ALL = ("--yes",)
GROUP = f"/group?by=fingerprint&key={FINGERPRINT}"
ORDERED = {"filter": "tenant:acme", "kind": "redrive"}


async def _operate(office: ActingOffice, order: Order) -> Any:
    started = await office.operations.start(order)
    return office.operations.document(await office.operations.wait(started.id))


async def _find(office: ActingOffice, _: Filled) -> Any:
    return (await office.letters.find("tenant:acme", limit=5)).document.letters


async def _show(office: ActingOffice, filled: Filled) -> Any:
    return (await office.letters.show(filled.letters[0])).document


async def _reveal(office: ActingOffice, filled: Filled) -> Any:
    return (await office.letters.show(filled.letters[0], reveal=True)).document


async def _export(office: ActingOffice, _: Filled) -> Any:
    chosen = Selection(filter="tenant:acme", limit=5)
    pieces = [one.data async for one in office.letters.export(chosen, Format.JSONL)]
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


async def _shape(office: ActingOffice, _: Filled) -> Any:
    return (await office.letters.shape()).document.tenants


async def _destinations(office: ActingOffice, _: Filled) -> Any:
    return (await office.destinations.count(queue="orders")).document.destinations


async def _groups(office: ActingOffice, _: Filled) -> Any:
    return (await office.groups.find(GroupBy.TENANT)).document.groups


async def _note(office: ActingOffice, _: Filled) -> Any:
    return said_document(await office.groups.note(GroupBy.FINGERPRINT, FINGERPRINT, "seen"))


async def _resolve(office: ActingOffice, _: Filled) -> Any:
    return said_document(await office.groups.resolve(GroupBy.FINGERPRINT, FINGERPRINT))


async def _preview(office: ActingOffice, _: Filled) -> Any:
    return preview_document(await office.operations.preview(Order(OperationKind.REDRIVE)))


async def _redrive(office: ActingOffice, _: Filled) -> Any:
    return await _operate(office, Order(OperationKind.REDRIVE, Selection(filter="tenant:acme")))


async def _redrive_ids(office: ActingOffice, filled: Filled) -> Any:
    return await _operate(office, Order(OperationKind.REDRIVE, Selection(ids=filled.letters[:2])))


async def _discard(office: ActingOffice, _: Filled) -> Any:
    return await _operate(
        office, Order(OperationKind.DISCARD, Selection(filter="tenant:globex"), expired=True)
    )


async def _archive(office: ActingOffice, filled: Filled) -> Any:
    folder = str(filled.file.parent / "kept")
    return await _operate(
        office, Order(OperationKind.ARCHIVE, Selection(filter="tenant:acme"), expired=True, file=folder)
    )


def _operation(answer: Any) -> Any:
    return answer["operation"]


def _said(answer: Any) -> Any:
    return {name: value for name, value in answer.items() if name != "key"}


LETTER_ACTS = (
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
        "destinations",
        ("mail", "destinations", "--queue", "orders"),
        _destinations,
        ("GET", "/destinations?queue=orders", None),
        lambda told: told["destinations"],
        lambda told: told["destinations"],
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
        ("POST", "/operations?dryRun=true", {"kind": "redrive", "all": True}),
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
)
