"""Two real processes on one store: what fires is told once, also when the process that watched is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move
from redrive.office.duties import DUTY_RECORDS
from tests.conformance.makers import QUEUE, dead
from tests.office.alerts.endpoints import endpoint
from tests.office.story.site import open_site

SHOP = '''
from redrive import Redrive

app = Redrive()


@app.handler("orders")
async def handle(payload: dict) -> None:
    """Nothing to do."""
'''
SETTINGS = """
[channels.hook]
url = "http://127.0.0.1:{port}/"
allow_http = true
allow_private = true
[alerts.dlq_high]
above = 1
"""


@pytest.mark.long
async def test_of_two_workers_the_one_that_is_left_tells_that_it_cleared_and_nothing_twice(
    tmp_path: Path,
) -> None:
    (tmp_path / "written.py").write_text(SHOP)
    async with (
        endpoint() as hook,
        open_site(tmp_path, f"sqlite:///{tmp_path}/redrive.db", str(tmp_path / "written.py")) as site,
    ):
        (tmp_path / "redrive.toml").write_text(SETTINGS.format(port=hook.port))
        store = site.app.store
        ids = await dead(store, 2)
        workers = [site.start("worker", "shop:app", "--log-level", "warning") for _ in range(2)]
        await site.wait_until(lambda: bool(hook.received), "it is told that it fires")
        duty = await store.get_record(DUTY_RECORDS, "alerts")
        assert duty is not None
        (watching,) = [one for one in workers if f"-{one.pid}-" in duty.document["holder"]]
        watching.kill()
        await store.remove(QUEUE, [LetterKey(one) for one in ids], Move.DISCARD, actor="ana")
        # What two minutes would do: a killed process does not give its lease back.
        await store.delete_record(DUTY_RECORDS, "alerts", expected=None)
        await site.wait_until(lambda: len(hook.received) > 1, "it is told that it cleared")
    told = [(one["kind"], one["alert"]) for one in hook.documents]
    assert told == [("fired", "dlq_high"), ("cleared", "dlq_high")]
