"""`redrive mailbox`: run the mailbox simulator by itself, and see what it received.

`list` and `show` read its folder, while it runs or afterwards. Mails are attacker's text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.output import Output, clean, name, time_of_day
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.config import Settings
from redrive.core.errors import CannotListen
from redrive.core.ports import PAGE
from redrive.core.redaction import printable
from redrive.core.values import instant
from redrive.engine.process import stop_on_signals
from redrive.mailbox import Mailbox, Received
from redrive.mailbox import folder as folders

PORT = 1025
_HIGHEST_PORT = 65_535
mailbox = App(name="mailbox")


def mailbox_folder(settings: Settings) -> Path:
    """Where the simulator of a data folder keeps its mails."""
    return settings.data / "mailbox"


@asynccontextmanager
async def listening_mailbox(made: Mailbox, flags: str) -> AsyncIterator[Mailbox]:
    """A simulator that listens while inside; an error names the flags that say where."""
    try:
        await made.open()
    except CannotListen as error:
        raise CommandError(f"{error} with {flags} (0 takes a free port)", Exit.FAILED) from error
    try:
        yield made
    finally:
        await made.close()


def check_port(port: int, flag: str) -> None:
    """USAGE where this is no port."""
    if not 0 <= port <= _HIGHEST_PORT:
        raise CommandError(f"{flag} is {port}: 0 to {_HIGHEST_PORT}", Exit.USAGE)


@mailbox.default
@mailbox.command
async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    folder: Path | None = None,
    allow_remote: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """Run the simulator until SIGTERM or Ctrl-C. The recipient chooses what happens; nothing is sent on.

    Parameters
    ----------
    host
        The address to listen on; another than this machine's own needs --allow-remote.
    port
        The port; default 1025, 0 takes a free one.
    folder
        Where mails are kept; default: mailbox in the data folder.
    allow_remote
        Listen on an address that other machines reach: anybody there can connect.
    """
    if not allow_remote and not _is_loopback(host):
        raise CommandError(
            f"--host is {host}: other machines could reach a simulator that lets everybody in; listen on "
            "127.0.0.1, or add --allow-remote on a trusted network",
            Exit.USAGE,
        )
    check_port(port, "--port")
    place, output = folder or mailbox_folder(flags.settings()), Output(flags.json)
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        async with listening_mailbox(Mailbox(host, port, place), "--host and --port") as opened:
            document = {"url": opened.url, "folder": str(place)}
            output.answer(document, lambda: Text(f"listening on {opened.url}, mails in {place}"))
            await stop.wait()
            output.note(f"{opened.total:,} mails, {opened.duplicates:,} of them doubled")


@mailbox.command(name="list")
def list_mails(
    *,
    limit: int = 20,
    to: str | None = None,
    folder: Path | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """The newest mails that the simulator received, oldest first.

    Parameters
    ----------
    limit
        How many at most, up to 500; default 20.
    to
        Only those to exactly this address.
    folder
        Where mails are kept; default: mailbox in the data folder.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    place, output = _existing(folder, flags), Output(flags.json)
    found = folders.latest(place, limit if to is None else None)
    if to is not None:
        found = [one for one in found if to.lower() in map(str.lower, one.recipients)][-limit:]
    output.answer({"mails": [_document(one) for one in found]}, lambda: _table(output, found))


@mailbox.command
def show(mail_id: int, /, *, folder: Path | None = None, flags: Flags = NO_FLAGS) -> None:
    """One received mail as it came.

    Parameters
    ----------
    mail_id
        The number that `mailbox list` shows.
    folder
        Where mails are kept; default: mailbox in the data folder.
    """
    place = _existing(folder, flags)
    found = folders.find(place, mail_id)
    if found is None:
        raise CommandError(f"no mail {mail_id} in {place}: see redrive mailbox list", Exit.NOT_FOUND)
    content = found.content.decode("utf-8", "replace")
    Output(flags.json).answer(_document(found) | {"content": content}, lambda: _page(found, content))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _existing(folder: Path | None, flags: Flags) -> Path:
    place = folder or mailbox_folder(flags.settings())
    if not place.is_dir():
        raise CommandError(
            f"no mailbox at {place.absolute()} yet: redrive up or redrive mailbox starts one",
            Exit.UNREACHABLE,
        )
    return place


def _document(mail: Received) -> dict[str, Any]:
    return {
        "id": mail.id,
        "receivedAt": instant(mail.at),
        "from": mail.sender,
        "to": list(mail.recipients),
        "subject": mail.subject,
        "messageId": mail.message_id,
        "companyId": mail.tenant,
        "duplicateOf": mail.duplicate_of,
        "bytes": len(mail.content),
    }


def _table(output: Output, found: list[Received]) -> RenderableType:
    if not found:
        return Text("no mails")
    table = output.table("id", "at (UTC)", "from", "to", "subject", numbers=("id",))
    for one in found:
        subject = name(one.subject)
        if one.duplicate_of is not None:
            subject.append(f" (doubles {one.duplicate_of})", "yellow")
        sent_to = name(", ".join(one.recipients))
        table.add_row(str(one.id), time_of_day(one.at)[:8], name(one.sender), sent_to, subject)
    return table


def _page(mail: Received, content: str) -> RenderableType:
    head = f"{mail.id}  received {instant(mail.at)} from {clean(mail.sender)} to "
    return Group(Text(head + clean(", ".join(mail.recipients)), "bold"), Text(), Text(printable(content)))
