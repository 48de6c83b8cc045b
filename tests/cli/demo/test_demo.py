"""`redrive demo`: its figures are what the simulator's inbox says, and it needs nothing but itself."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.cli.demo.traffic import TENANTS, tenant_clients
from redrive.core.errors import StoreUnavailable
from redrive.mailbox import folder
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from tests.cli.conftest import Shop
from tests.cli.processes import finish, on_terminal, started

CYCLE = ("--seconds", "1", "--rate", "30")


def test_its_figures_are_those_of_the_simulators_inbox(shop: Shop) -> None:
    result = finish(shop.folder, "demo", *CYCLE, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    inbox = folder.latest(shop.folder / "mailbox")
    first = [mail for mail in inbox if mail.duplicate_of is None]
    assert (document["mails"], document["retrying"], document["waiting"]) == (30, 0, 0)
    assert document["delivered"] == len(first) == 28
    assert document["dead"] == len(shop.ok("dlq", "list")["letters"]) == 4
    delivered = {tenant: one["delivered"] for tenant, one in document["byTenant"].items()}
    assert delivered == Counter(re.split("[@.]", mail.sender)[1] for mail in first)
    assert delivered["acme"] > delivered["globex"] > delivered["initech"] > 0
    (doubled,) = [mail for mail in inbox if mail.duplicate_of is not None]
    assert doubled.recipients == ("drop-after-dot+11@b.example",)


def test_piped_it_tells_each_attempt_and_the_figures(shop: Shop) -> None:
    result = finish(shop.folder, "demo", *CYCLE)
    assert result.returncode == 0, result.stderr
    for told in (
        r"globex to fail-2-then-ok\+1@b\.example attempt 1 failed: 451 4\.3\.0 ",
        r"globex to fail-2-then-ok\+1@b\.example attempt 2 failed after [\d.]+ s: ",
        r"globex to fail-2-then-ok\+1@b\.example delivered on attempt 3 after [\d.]+ s",
        r"globex to reply-550-5\.1\.1\+9@b\.example is dead: 550 5\.1\.1 ",
        r"globex to ok\+9@b\.example delivered",
        r"30 mails: 28 delivered, 0 retrying, 4 dead",
    ):
        assert re.search(told, result.stdout), told
    assert "rdk_" not in result.stdout


def test_it_sends_through_a_gateway_that_runs(shop: Shop) -> None:
    with started(shop.folder, "up", "--no-demo", "--listen", "127.0.0.1:0", "--mailbox-port", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        key = shop.ok("keys", "create", "--role", "submit", "--tenant", "globex")["key"]
        result = finish(shop.folder, "demo", "--url", url, "--key", key, *CYCLE, "--json")
        wrong = finish(shop.folder, "demo", "--url", url, "--key", "rdk_wrong", "--json")
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert json.loads(result.stdout)["byTenant"].keys() == {"acme"}
    assert json.loads(result.stdout)["delivered"] == 28
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "unknown, wrong, revoked or has ended" in wrong.stderr
    assert "rdk_wrong" not in wrong.stderr
    assert {lane["companyId"] for lane in shop.ok("status", "--lanes", "email:send")["lanes"]} == {"globex"}


def test_an_interrupt_ends_it_with_the_figures(shop: Shop) -> None:
    with started(shop.folder, "demo") as process:
        for line in process.stdout or ():
            if "delivered" in line:
                break
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert process.returncode == 0, error
    assert re.search(r"\d+ mails: \d+ delivered", out)


def test_on_a_terminal_it_draws_a_page(shop: Shop) -> None:
    code, shown = on_terminal(shop.folder, "demo", *CYCLE, until="", answer="")
    assert code == 0
    for part in ("redrive demo", "simulator", "delivered", "share", "globex", "28 delivered"):
        assert part in shown


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--rate", "51"), 2, "--rate"),
        (("--seconds", "0"), 2, "--seconds"),
        (("--url", "http://127.0.0.1:1"), 2, "--key"),
        (("--key", "k"), 2, "--url"),
        (("--url", "gopher://x", "--key", "k"), 2, "--url"),
        (("--url", "http://127.0.0.1:1", "--key", "k"), 5, "redrive up"),
    ],
)
def test_what_cannot_be_done_is_told(shop: Shop, flags: tuple[str, ...], code: int, said: str) -> None:
    result = shop("demo", *flags)
    assert (result.code, "Traceback" in result.error) == (code, False)
    assert said in result.error


def test_it_never_goes_to_a_relay_by_itself(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_MAIL", "smtps://user:hunter2@relay.example")
    result = shop("demo")
    assert result.code == 2
    assert "simulator alone" in result.error
    assert "hunter2" not in result.error


async def test_keys_end_also_where_making_the_others_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Redrive(f"sqlite:///{tmp_path}/redrive.db") as app:
        access, create = Access(app.store, Actor("test", "test")), Access.create

        async def fails_for_the_last(self: Access, role: Role, tenant: str | None, name: str) -> object:
            if tenant == TENANTS[-1]:
                raise StoreUnavailable("it does not answer")
            return await create(self, role, tenant, name)

        monkeypatch.setattr(Access, "create", fails_for_the_last)
        with pytest.raises(StoreUnavailable):
            async with tenant_clients(app.store, "http://127.0.0.1:1"):
                pytest.fail("there are no clients")
        assert [key.tenant for key in await access.list(ended=True)] == list(TENANTS[:-1])
        assert await access.list() == []
