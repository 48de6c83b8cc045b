"""Small families for the tests: a running parent, its children, and what is kept of its body."""

from __future__ import annotations

from redrive.core.message import Delivery
from redrive.core.store import Store
from tests.conformance.makers import account, complete, submit, take_one

CONTENT = b"the content that all share"


async def running_parent(store: Store, **fields: object) -> Delivery:
    """A claimed message that is about to have children."""
    await submit(store, body=CONTENT, **fields)
    return await take_one(store)


async def fan_out(store: Store, parent: Delivery, count: int = 3, **fields: object) -> list[str]:
    """Children of a running parent, which is then done; their ids."""
    children = await submit(store, count, body=b"to one", parent=parent.message.id, **fields)
    assert await complete(store, parent) == set()
    return children


async def body_of(store: Store, message_id: str) -> bytes:
    return (await account(store, message_id)).message.body
