"""Control: pause and resume a queue or a tenant, set a tenant's weight, cap and rate, and see how all stands.

What is about all tenants needs an unbound key. A bound operator may stop and start its own tenant, and may
not give it a larger share than others have: weight, cap and rate are set with an unbound key.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from redrive.core.lanes import Lane, LaneChange
from redrive.core.limits import Rate
from redrive.office.deletion import QueueInUse
from redrive.office.documents.control import DeletedQueue, QueueState, TenantPage, lane_document, tenant_lanes
from redrive.office.tenants import MOST_CAP, MOST_WEIGHT
from redrive.web.access import Call, Route
from redrive.web.admin.route import (
    OPERATE,
    READ,
    AdminRoom,
    AdminRoute,
    Cursor,
    Limit,
    NoParameters,
    Parameters,
    asked,
)
from redrive.web.documents import decode, respond
from redrive.web.limits import read_json
from redrive.web.problems import WRONG_STATE, Refusal

_BODY_BYTES = 64 * 1024
_TENANT = "/tenants/{tenant}"
_QUEUE = "/queues/{queue}"


class OneQueue(Parameters, frozen=True):
    """In one queue; without, in every queue that the tenant has used."""

    queue: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


class ListTenants(Parameters, frozen=True):
    """How many tenants, from where."""

    limit: Limit = 50
    cursor: Cursor | None = None


class TenantChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is given is set; a `cap` or `rate` (such as `100/min`) of null is removed."""

    weight: Annotated[int, msgspec.Meta(ge=1, le=MOST_WEIGHT)] | UnsetType = UNSET
    cap: Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)] | UnsetType | None = UNSET
    rate: Annotated[str, msgspec.Meta(max_length=20)] | UnsetType | None = UNSET


def _queue(verb: str, summary: str) -> AdminRoute:
    return AdminRoute(
        method="POST",
        path=f"{_QUEUE}/{verb}",
        name=f"{verb}Queue",
        summary=summary,
        allowed=OPERATE,
        document="QueueState",
        unbound=True,
    )


def _tenant(verb: str, summary: str) -> AdminRoute:
    return AdminRoute(
        method="POST",
        path=f"{_TENANT}/{verb}",
        name=f"{verb}Tenant",
        summary=summary,
        allowed=OPERATE,
        query=OneQueue,
        document="TenantLanes",
    )


_STATUS = AdminRoute(
    method="GET",
    path="/status",
    name="showStatus",
    summary="The state of everything: queues, the last hour, causes, tenants, operations, workers, the store",
    allowed=READ,
    document="OverviewDocument",
    unbound=True,
)
_LANES = AdminRoute(
    method="GET",
    path=f"{_QUEUE}/tenants",
    name="listQueueTenants",
    summary="The tenants of a queue: what waits, runs and is dead, and their switches",
    allowed=READ,
    query=ListTenants,
    document="TenantPage",
)
_SHOW = AdminRoute(
    method="GET",
    path=_TENANT,
    name="showTenant",
    summary="A tenant in every queue that it has used",
    allowed=READ,
    document="TenantLanes",
)
_SET = AdminRoute(
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
_DELETE_QUEUE = AdminRoute(
    method="DELETE",
    path=_QUEUE,
    name="deleteQueue",
    summary="Forget a queue that has nothing open, with its settings and finished records",
    allowed=OPERATE,
    document="DeletedQueue",
    problems=(WRONG_STATE,),
    unbound=True,
)
_PAUSE_QUEUE = _queue("pause", "Hand out nothing more of a queue")
_RESUME_QUEUE = _queue("resume", "Hand out a queue's messages again")
_PAUSE_TENANT = _tenant("pause", "Hand out nothing more of a tenant")
_RESUME_TENANT = _tenant("resume", "Hand out a tenant's messages again, paused or held")
_BODY = msgspec.json.Decoder(TenantChange)


class ControlRoom(AdminRoom):
    """The routes."""

    def routes(self) -> list[Route]:
        return [
            _STATUS.to(self.status),
            _LANES.to(self.lanes),
            _PAUSE_QUEUE.to(self.pause_queue),
            _RESUME_QUEUE.to(self.resume_queue),
            _DELETE_QUEUE.to(self.delete_queue),
            _SHOW.to(self.show),
            _SET.to(self.set),
            _PAUSE_TENANT.to(self.pause),
            _RESUME_TENANT.to(self.resume),
        ]

    async def status(self, call: Call) -> Response:
        asked(call, NoParameters)
        return respond(200, (await self.acting(call).overview.show()).document)

    async def lanes(self, call: Call) -> Response:
        query, acting = asked(call, ListTenants), self.acting(call)
        queue = await acting.queues.named(call.request.path_params["queue"])
        lanes = await acting.tenants.page(queue, after=query.cursor, limit=query.limit)
        more = len(lanes) == query.limit and acting.view.scope is None
        page = [lane_document(lane) for lane in lanes]
        return respond(200, TenantPage(queue=queue, tenants=page, cursor=lanes[-1].tenant if more else None))

    async def pause_queue(self, call: Call) -> Response:
        asked(call, NoParameters)
        queue = await self.acting(call).queues.pause(call.request.path_params["queue"])
        return respond(200, QueueState(queue=queue, state="paused"))

    async def resume_queue(self, call: Call) -> Response:
        asked(call, NoParameters)
        queue = await self.acting(call).queues.resume(call.request.path_params["queue"])
        return respond(200, QueueState(queue=queue, state="running"))

    async def delete_queue(self, call: Call) -> Response:
        asked(call, NoParameters)
        queues = self.acting(call).queues
        queue = await queues.named(call.request.path_params["queue"])
        try:
            removed = await queues.delete(queue)
        except QueueInUse as error:
            raise Refusal(WRONG_STATE, str(error)) from error
        return respond(200, DeletedQueue(queue=queue, removed=removed))

    async def show(self, call: Call) -> Response:
        asked(call, NoParameters)
        return _lanes(call, await self.acting(call).tenants.show(_tenant_of(call)))

    async def set(self, call: Call) -> Response:
        queue = asked(call, OneQueue).queue
        change = _change(decode(_BODY, await read_json(call.request, _BODY_BYTES)))
        return _lanes(call, await self.acting(call).tenants.set(_tenant_of(call), queue, change))

    async def pause(self, call: Call) -> Response:
        queue = asked(call, OneQueue).queue
        return _lanes(call, await self.acting(call).tenants.pause(_tenant_of(call), queue))

    async def resume(self, call: Call) -> Response:
        queue = asked(call, OneQueue).queue
        return _lanes(call, await self.acting(call).tenants.resume(_tenant_of(call), queue))


def _tenant_of(call: Call) -> str:
    tenant: str = call.request.path_params["tenant"]
    return tenant


def _lanes(call: Call, lanes: list[Lane]) -> Response:
    return respond(200, tenant_lanes(_tenant_of(call), lanes))


def _change(body: TenantChange) -> LaneChange:
    rate = None if isinstance(body.rate, UnsetType) or body.rate is None else Rate.parse(body.rate)
    cap = None if isinstance(body.cap, UnsetType) else body.cap or 0
    weight = None if isinstance(body.weight, UnsetType) else body.weight
    return LaneChange(weight=weight, cap=cap, rate=rate, unlimited=body.rate is None)
