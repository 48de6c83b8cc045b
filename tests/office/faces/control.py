"""What is done with messages, operations, queues and tenants, and what is asked of all, by each face."""

from __future__ import annotations

from typing import Any

from redrive.core.lanes import LaneChange
from redrive.core.letters import MessagePhase
from redrive.core.limits import Rate
from redrive.office.audit import Query
from redrive.office.documents.control import lane_document
from redrive.office.documents.findings import row_document, sql_document
from redrive.office.documents.messages import RemovedMessages
from redrive.office.office import ActingOffice
from tests.office.faces.act import Act, Filled


async def _message(office: ActingOffice, filled: Filled) -> Any:
    return (await office.messages.show(filled.waiting)).document


async def _messages(office: ActingOffice, _: Filled) -> Any:
    return (await office.message_list.page(MessagePhase.WAITING, tenant="acme")).document


async def _remove_waiting(office: ActingOffice, _: Filled) -> Any:
    done = await office.message_list.remove("acme")
    return RemovedMessages(company_id=done.tenant, removed=done.removed, waiting=done.waiting)


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


CONTROL_ACTS = (
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
