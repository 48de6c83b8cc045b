"""`redrive up`: a newcomer sees messages delivered, retried and dead, on a terminal and in a pipe."""

from __future__ import annotations

import json
import re
import signal

from tests.cli.conftest import Shop
from tests.cli.processes import finish, on_terminal, started


def test_piped_it_tells_in_plain_lines_what_happens(shop: Shop) -> None:
    result = finish(shop.folder, "up", "--seconds", "5")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert re.search(r"acme order \d+ delivered", result.stdout)
    assert re.search(r"order \d+ failed: payment gateway timed out, retry in 0\.\d s", result.stdout)
    assert re.search(r"order \d+ delivered on attempt 2", result.stdout)
    assert re.search(r"is dead \(permanent\): card was declined", result.stdout)
    assert re.search(r"is dead \(exhausted\): ", result.stdout)
    assert re.search(r"is dead \(poison\): ", result.stdout)
    assert re.search(r"runs later, in 2\.\d s: no attempt counted", result.stdout)
    assert "redrive dlq list" in result.stdout
    assert "durability A" in result.stderr
    queues = shop.ok("status")["queues"]
    assert all(queue["queue"].startswith("example:") for queue in queues)
    assert sum(queue["dlq"] for queue in queues) == len(shop.ok("dlq", "list")["letters"])


def test_with_a_number_of_messages_it_ends_when_all_have(shop: Shop) -> None:
    result = finish(shop.folder, "up", "--messages", "8", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["waiting"] == 0
    assert document["reasons"]["permanent"] == 1
    assert document["retried"] == 3


def test_an_interrupt_ends_it_with_a_summary(shop: Shop) -> None:
    with started(shop.folder, "up") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "delivered" in line:
                break
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert process.returncode == 0, error
    assert re.search(r"In \d.* s: \d+ delivered", out)
    assert shop.ok("status")["queues"][0]["processing"] == 0


def test_on_a_terminal_it_draws_a_page(shop: Shop) -> None:
    code, shown = on_terminal(shop.folder, "up", "--seconds", "2", until="", answer="")
    assert code == 0
    for part in ("pending", "retrying", "tenant", "acme", "durability A", "Ctrl-C", "redrive dlq list"):
        assert part in shown
