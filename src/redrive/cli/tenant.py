"""`redrive tenant`: what each tenant has waiting, running and dead, and its switches, while all runs."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App
from rich.console import RenderableType

from redrive.cli.output import command
from redrive.cli.render.store import lane_table
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.lanes import Lane, LaneChange
from redrive.core.limits import Rate
from redrive.core.ports import PAGE
from redrive.office.filters.terms import Named, NameField
from redrive.office.wire import lane_document

tenant = App(name="tenant")


@tenant.command(name="list")
async def list_tenants(*, queue: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Every tenant in each queue, those with the most dead and waiting first.

    Parameters
    ----------
    queue
        Only those of this queue.
    """
    async with session(flags) as current:
        names = await current.store.queue_names() if queue is None else [await current.known_queue(queue)]
        lanes = [lane for one in names for lane in await all_lanes(current, one)]
        lanes.sort(key=lambda lane: (-lane.dead, -lane.waiting, lane.tenant))
        _answer(current, lanes)


@tenant.command
async def show(tenant: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """One tenant in each queue it uses.

    Parameters
    ----------
    tenant
        The tenant.
    """
    async with session(flags) as current:
        _answer(current, await _known(current, tenant))
        chosen = Named(NameField.TENANT, (tenant,))
        current.output.note(f"its dead letters: {command('dlq', 'groups', '--filter', chosen)}")


@tenant.command
async def pause(tenant: str, /, *, queue: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Hand out nothing more of a tenant; what runs goes on, and what comes waits.

    Parameters
    ----------
    tenant
        The tenant.
    queue
        Only in this queue; default: in all that it uses now.
    """
    async with session(flags) as current:
        place = await _place(current, tenant, queue)
        _answer(current, await current.tenants.pause(tenant, place))
        where = () if place is None else ("--queue", place)
        current.output.note(f"again with: {command('tenant', 'resume', tenant, *where)}")


@tenant.command
async def resume(tenant: str, /, *, queue: str | None = None, flags: Flags = NO_FLAGS) -> None:
    """Hand out a tenant's messages again, whether somebody paused it or a failure held it.

    Parameters
    ----------
    tenant
        The tenant.
    queue
        Only in this queue; default: in all that it uses now.
    """
    async with session(flags) as current:
        place = await _place(current, tenant, queue)
        _answer(current, await current.tenants.resume(tenant, place))


@tenant.command(name="set")
async def set_tenant(
    tenant: str,
    /,
    *,
    queue: str | None = None,
    weight: int | None = None,
    cap: int | None = None,
    rate: str | None = None,
    unlimited: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """Change a tenant's share, at once and for what already waits.

    Parameters
    ----------
    tenant
        The tenant; with --queue also one that has not been seen yet.
    queue
        Only in this queue; default: in all that it uses now.
    weight
        Its turns against those of the others, 1 to 1000; default 1.
    cap
        At most this many of its messages run at once; 0 removes the cap.
    rate
        At most this many of its messages are handed out, such as 100/min.
    unlimited
        Remove the rate.
    """
    change = LaneChange(
        weight=weight, cap=cap, rate=None if rate is None else Rate.parse(rate), unlimited=unlimited
    )
    async with session(flags) as current:
        place = await _place(current, tenant, queue)
        _answer(current, await current.tenants.set(tenant, place, change))


async def _place(current: Session, tenant: str, queue: str | None) -> str | None:
    """The queue meant, which must exist; without one, the tenant must."""
    if queue is not None:
        return await current.known_queue(queue)
    await _known(current, tenant)
    return None


async def _known(current: Session, tenant: str) -> list[Lane]:
    return await current.tenants.show(tenant)


def _answer(current: Session, lanes: Sequence[Lane]) -> None:
    def render() -> RenderableType:
        return lane_table(current.output, lanes, current.store.now())

    current.output.answer({"lanes": [lane_document(lane) for lane in lanes]}, render)


async def all_lanes(current: Session, queue: str) -> list[Lane]:
    """Every lane of a queue."""
    found: list[Lane] = []
    while page := await current.store.lanes(queue, after=found[-1].tenant if found else None, limit=PAGE):
        found += page
    return found
