"""`redrive send`: submit one message from the terminal or from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.text import Text

from redrive.app import Redrive
from redrive.cli.output import Length, Output
from redrive.cli.session import NO_FLAGS, Flags
from redrive.core.errors import InvalidMessage
from redrive.core.message import DEFAULT_TENANT
from redrive.core.ports import Receipt, Status
from redrive.wiring import unsafe_flags


async def send(
    queue: str,
    payload: Annotated[str, Parameter(name="JSON", allow_leading_hyphen=True)],
    /,
    *,
    tenant: str = DEFAULT_TENANT,
    dedupe: str | None = None,
    delay: Length = None,
    at: datetime | None = None,
    ttl: Length = None,
    track: str = "main",
    header: Sequence[str] = (),
    allow_unsafe: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """Submit one message; prints its id once it is stored.

    Parameters
    ----------
    queue
        Where it goes.
    payload
        The payload as JSON; - reads it from standard input.
    tenant
        Whose message it is.
    dedupe
        A key of your own: a second message with it gets the first one's id.
    delay
        Run it after this long, such as 10 (seconds), 5m or 2h30m.
    at
        Run it at this time, such as 2030-01-31T09:00:00Z.
    ttl
        Give up after this long, such as 600 (seconds) or 10m.
    track
        main or bulk.
    header
        name=value; can be repeated.
    allow_unsafe
        Also use a Redis server that evicts, or keeps its data in memory only: messages may be lost.
    """
    body = _parse(sys.stdin.read() if payload == "-" else payload)
    settings = flags.settings(**unsafe_flags(allowed=allow_unsafe))
    async with Redrive(settings=settings) as app:
        receipt = await app.submit(
            queue,
            body,
            tenant=tenant,
            dedupe=dedupe,
            delay=delay,
            at=at,
            ttl=ttl,
            track=track,
            headers=dict(map(parse_header, header)),
        )
    answer_receipt(Output(flags.json), queue, tenant, receipt)


def answer_receipt(output: Output, queue: str, tenant: str, receipt: Receipt) -> None:
    """What became of a submission."""
    duplicate = receipt.status is Status.DUPLICATE
    if duplicate:
        output.note(f"a duplicate: nothing was added, {receipt.id} has this key and is {receipt.state}")
    document = {
        "jobId": receipt.id,
        "companyId": tenant,
        "queue": queue,
        "state": receipt.state.value,
        "status": receipt.status.value,
        "duplicateOf": receipt.id if duplicate else None,
    }
    output.answer(document, lambda: Text(receipt.id))


def _parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise InvalidMessage("the payload is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidMessage(
            f"the payload is not JSON ({error}): quote it for the shell, as in '{{\"order\": 7}}'"
        ) from None


def parse_header(text: str) -> tuple[str, str]:
    """Name and value of `name=value`."""
    name, mark, value = text.partition("=")
    if not mark:
        raise InvalidMessage("a header is written as name=value")
    return name, value
