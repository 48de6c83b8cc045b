"""Control: pause and resume a queue or a tenant, set a tenant's weight, cap and rate, and see how all stands.

What is about all tenants needs an unbound key. A bound operator may stop and start its own tenant, and may
not give it a larger share than others have: weight, cap and rate are set with an unbound key.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from redrive.core.lanes import Lane, LaneChange
from redrive.core.limits import Rate
from redrive.core.redaction import redact
from redrive.office.queues import Queues
from redrive.office.retention.notice import Notice, notices
from redrive.office.tenants import MOST_WEIGHT, Tenants
from redrive.office.wire import instant, lane_document, queue_document
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import Cursor, Limit, NoQuery, Query, asked
from redrive.web.admin.description import OPERATE, READ, Route
from redrive.web.admin.office import Office, actor_of
from redrive.web.answers import respond
from redrive.web.documents import decode
from redrive.web.limits import read_json
from redrive.web.problem_types import NOT_FOUND
from redrive.web.problems import Refused

_BODY_BYTES = 64 * 1024
_MOST_CAP = 1_000_000
_TENANT = "/tenants/{tenant}"
_QUEUE = "/queues/{queue}"


class OneQueue(Query, frozen=True):
    """In one queue; without, in every queue that the tenant has used."""

    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


class ListTenants(Query, frozen=True):
    """How many tenants, from where."""

    limit: Limit = 50
    cursor: Cursor | None = None


class TenantChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is given is set; a `cap` or `rate` (such as `100/min`) of null is removed."""

    weight: Annotated[int, msgspec.Meta(ge=1, le=MOST_WEIGHT)] | UnsetType = UNSET
    cap: Annotated[int, msgspec.Meta(ge=1, le=_MOST_CAP)] | UnsetType | None = UNSET
    rate: Annotated[str, msgspec.Meta(max_length=20)] | UnsetType | None = UNSET


def _queue(verb: str, summary: str) -> Route:
    return Route(
        method="POST",
        path=f"{_QUEUE}/{verb}",
        name=f"{verb}Queue",
        summary=summary,
        allowed=OPERATE,
        document="QueueState",
        unbound=True,
    )


def _tenant(verb: str, summary: str) -> Route:
    return Route(
        method="POST",
        path=f"{_TENANT}/{verb}",
        name=f"{verb}Tenant",
        summary=summary,
        allowed=OPERATE,
        query=OneQueue,
        document="TenantLanes",
    )


_STATUS = Route(
    method="GET",
    path="/status",
    name="showStatus",
    summary="Every queue with its counts and workers, the store, and the letters that will leave",
    allowed=READ,
    document="StatusDocument",
    unbound=True,
)
_LANES = Route(
    method="GET",
    path=f"{_QUEUE}/tenants",
    name="listQueueTenants",
    summary="The tenants of a queue: what waits, runs and is dead, and their switches",
    allowed=READ,
    query=ListTenants,
    document="TenantPage",
)
_SHOW = Route(
    method="GET",
    path=_TENANT,
    name="showTenant",
    summary="A tenant in every queue that it has used",
    allowed=READ,
    document="TenantLanes",
)
_SET = Route(
    method="PATCH",
    path=_TENANT,
    name="changeTenant",
    summary="Set a tenant's weight, cap or rate",
    allowed=OPERATE,
    query=OneQueue,
    body="TenantChange",
    document="TenantLanes",
    unbound=True,
)
_PAUSE_QUEUE = _queue("pause", "Hand out nothing more of a queue")
_RESUME_QUEUE = _queue("resume", "Hand out a queue's messages again")
_PAUSE_TENANT = _tenant("pause", "Hand out nothing more of a tenant")
_RESUME_TENANT = _tenant("resume", "Hand out a tenant's messages again, paused or held")
_BODY = msgspec.json.Decoder(TenantChange)


class Control:
    """The routes."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._store = office.store

    def operations(self) -> list[Operation]:
        return [
            _STATUS.operation(self.status),
            _LANES.operation(self.lanes),
            _PAUSE_QUEUE.operation(self.pause_queue),
            _RESUME_QUEUE.operation(self.resume_queue),
            _SHOW.operation(self.show),
            _SET.operation(self.set),
            _PAUSE_TENANT.operation(self.pause),
            _RESUME_TENANT.operation(self.resume),
        ]

    async def status(self, call: Call) -> Response:
        asked(call, NoQuery)
        described, capacity = await self._store.describe(), await self._store.capacity()
        document = {
            "durability": described.durability.value,
            "usedBytes": capacity.used_bytes,
            "limitBytes": capacity.limit_bytes,
            "accepts": capacity.accepts,
            "queues": [queue_document(one) for one in await Queues(self._store, actor_of(call)).status()],
            "retention": [_notice(one) for one in await notices(self._store)],
        }
        return respond(200, document)

    async def lanes(self, call: Call) -> Response:
        query = asked(call, ListTenants)
        queue = await self._office.queue(call, call.request.path_params["queue"])
        tenant = call.credential.tenant
        if tenant is not None:
            lane = await self._store.lane(queue, tenant)
            own = [] if lane is None else [lane]
            return respond(200, {"queue": queue, "tenants": [_lane(one) for one in own], "cursor": None})
        lanes = await self._store.lanes(queue, after=query.cursor, limit=query.limit)
        cursor = lanes[-1].tenant if len(lanes) == query.limit else None
        document = {"queue": queue, "tenants": [_lane(lane) for lane in lanes], "cursor": cursor}
        return respond(200, document)

    async def pause_queue(self, call: Call) -> Response:
        queue = await self._named_queue(call)
        await Queues(self._store, actor_of(call)).pause(queue)
        return respond(200, {"queue": queue, "state": "paused"})

    async def resume_queue(self, call: Call) -> Response:
        queue = await self._named_queue(call)
        await Queues(self._store, actor_of(call)).resume(queue)
        return respond(200, {"queue": queue, "state": "running"})

    async def show(self, call: Call) -> Response:
        asked(call, NoQuery)
        return _lanes(call, await self._tenants(call).lanes(_own(call)))

    async def set(self, call: Call) -> Response:
        queue = await self._given_queue(call)
        body = decode(_BODY, await read_json(call.request, _BODY_BYTES))
        return _lanes(call, await self._tenants(call).set(_own(call), queue, _change(body)))

    async def pause(self, call: Call) -> Response:
        queue = await self._given_queue(call)
        return _lanes(call, await self._tenants(call).pause(_own(call), queue))

    async def resume(self, call: Call) -> Response:
        queue = await self._given_queue(call)
        return _lanes(call, await self._tenants(call).resume(_own(call), queue))

    def _tenants(self, call: Call) -> Tenants:
        return Tenants(self._store, actor_of(call))

    async def _named_queue(self, call: Call) -> str:
        asked(call, NoQuery)
        return await self._office.queue(call, call.request.path_params["queue"])

    async def _given_queue(self, call: Call) -> str | None:
        query = asked(call, OneQueue)
        return None if query.queue is None else await self._office.queue(call, query.queue)


def _own(call: Call) -> str:
    """The tenant that the address names, which a bound key must be of."""
    tenant: str = call.request.path_params["tenant"]
    if not call.credential.sees(tenant):
        raise _no_tenant()
    return tenant


def _no_tenant() -> Refused:
    return Refused(NOT_FOUND, "there is no such tenant in any queue, or it is not this key's to see")


def _lanes(call: Call, lanes: list[Lane]) -> Response:
    if not lanes:
        raise _no_tenant()
    tenant = call.request.path_params["tenant"]
    return respond(200, {"companyId": tenant, "queues": [_lane(lane) for lane in lanes]})


def _lane(lane: Lane) -> dict[str, Any]:
    """A lane; why it is held is another server's words, which may hold a secret."""
    held = lane.held_reason
    return lane_document(lane) | {"heldReason": None if held is None else redact(held)}


def _change(body: TenantChange) -> LaneChange:
    rate = None if isinstance(body.rate, UnsetType) or body.rate is None else Rate.parse(body.rate)
    cap = None if isinstance(body.cap, UnsetType) else body.cap or 0
    weight = None if isinstance(body.weight, UnsetType) else body.weight
    return LaneChange(weight=weight, cap=cap, rate=rate, unlimited=body.rate is None)


def _notice(notice: Notice) -> dict[str, Any]:
    """What is announced of a queue; where its archives lie is not a caller's business."""
    return {
        "queue": notice.queue,
        "leaveAt": instant(notice.leave_at),
        "forAge": notice.aged,
        "forNumber": notice.excess,
        "left": notice.left,
        "leftAt": instant(notice.left_at),
    }
