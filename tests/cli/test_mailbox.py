"""`redrive mailbox`: the simulator by itself, and what it received, while it runs and afterwards."""

from __future__ import annotations

import json
import signal
import smtplib
import socket
from urllib.parse import urlsplit

from redrive.mailbox import Mailbox
from tests.cli.conftest import Shop
from tests.cli.processes import finish, started

EVIL = "\x1b[2J[red]boom[/red]"


def _send(url: str, to: str, subject: str) -> None:
    place = urlsplit(url)
    with smtplib.SMTP(place.hostname or "", place.port or 0) as client:
        content = f"Subject: {subject}\r\nX-Redrive-Tenant: acme\r\n\r\nHello {EVIL}\r\n"
        client.sendmail("a@acme.example", [to], content.encode())


def test_it_receives_until_told_to_end(shop: Shop) -> None:
    with started(shop.folder, "mailbox", "serve", "--port", "0", "--json") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        _send(document["url"], "ok@b.example", "Hi")
        (during,) = shop.ok("mailbox", "list")["mails"]
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate()
    assert (process.returncode, out, error) == (0, "", "")
    assert document["folder"] == "mailbox"
    (after,) = shop.ok("mailbox", "list")["mails"]
    assert during == after
    assert (after["from"], after["to"], after["subject"]) == ("a@acme.example", ["ok@b.example"], "Hi")
    assert (after["companyId"], after["duplicateOf"]) == ("acme", None)


def test_a_port_in_use_is_named_with_the_flag_that_changes_it(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        result = finish(shop.folder, "mailbox", "serve", "--port", place.partition(":")[2])
    assert (result.returncode, result.stdout) == (1, "")
    assert f"the mailbox simulator cannot listen on {place}: Address already in use" in result.stderr
    assert "--port" in result.stderr


def test_list_and_show_print_hostile_mail_as_text(shop: Shop) -> None:
    with started(shop.folder, "mailbox", "--port", "0", "--json") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        for number in range(3):
            _send(url, f"ok+{number}@b.example", f"{EVIL} {number}")
    listed, shown = shop("mailbox", "list").out, shop("mailbox", "show", "2").out
    for text in (listed, shown):
        assert "\x1b" not in text
        assert "[red]boom[/red]" in text
    assert "ok+1@b.example" in shown
    assert EVIL in shop.ok("mailbox", "show", "2")["content"]
    assert [mail["id"] for mail in shop.ok("mailbox", "list", "--limit", "2")["mails"]] == [2, 3]
    assert [mail["id"] for mail in shop.ok("mailbox", "list", "--to", "OK+0@b.example")["mails"]] == [1]


def test_what_is_not_there_is_told(shop: Shop) -> None:
    missing = shop("mailbox", "list")
    assert missing.code == 5
    assert "redrive up" in missing.error
    assert not (shop.folder / "mailbox").exists()
    (shop.folder / "mailbox").mkdir()
    assert shop("mailbox", "list").out == "no mails\n"
    assert shop("mailbox", "show", "7").code == 4


async def test_a_port_in_use_is_named(shop: Shop) -> None:
    async with Mailbox() as taken:
        result = finish(shop.folder, "mailbox", "--port", str(taken.port))
    assert (result.returncode, result.stdout) == (1, "")
    assert str(taken.port) in result.stderr


def test_an_address_that_other_machines_reach_needs_a_flag(shop: Shop) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "mail.example"):  # noqa: S104 - it is refused
        result = finish(shop.folder, "mailbox", "serve", "--host", host, "--port", "0")
        assert result.returncode == 2
        assert "--allow-remote" in result.stderr
    result = finish(shop.folder, "mailbox", "serve", "--host", "192.0.2.1", "--port", "0", "--allow-remote")
    assert "--allow-remote" not in result.stderr
