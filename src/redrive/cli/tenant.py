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
from redrive.office.documents.control import lane_list
from redrive.office.filters.terms import Named, NameField

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
        _answer(current, await current.office.tenants.every(queue))


@tenant.command
async def show(tenant: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """One tenant in each queue it uses.

    Parameters
    ----------
    tenant
        The tenant.
    """
    async with session(flags) as current:
        _answer(current, await current.office.tenants.show(tenant))
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
        _answer(current, await current.office.tenants.pause(tenant, queue))
        where = () if queue is None else ("--queue", queue)
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
        _answer(current, await current.office.tenants.resume(tenant, queue))


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
        _answer(current, await current.office.tenants.set(tenant, queue, change))


def _answer(current: Session, lanes: Sequence[Lane]) -> None:
    def render() -> RenderableType:
        return lane_table(current.output, lanes, current.store.now())

    current.output.answer(lane_list(lanes), render)
