"""A queue whose tenants do not take turns: said by its handler or by configuration, run by a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive import Redrive
from redrive.testing import run_until_idle

SENT = ["acme", "acme", "acme", "acme", "acme", "bob"]
IN_TURN = ["acme", "acme", "acme", "bob", "acme", "acme"]


def _configure(folder: Path, text: str) -> None:
    (folder / "redrive.toml").write_text(f"[queues.orders]\n{text}\n")


@pytest.mark.parametrize(
    ("fair", "configured", "expected"),
    [(True, "", IN_TURN), (False, "", SENT), (True, "fair = false", SENT), (False, "fair = true", IN_TURN)],
)
async def test_what_is_due_first_runs_first_where_tenants_do_not_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fair: bool, configured: str, expected: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _configure(tmp_path, configured)
    app, ran = Redrive("sqlite:///redrive.db"), []

    @app.handler("orders", concurrency=1, fair=fair)
    async def handle(tenant: str) -> None:
        ran.append(tenant)

    async with app:
        for tenant in SENT:
            await app.submit("orders", tenant, tenant=tenant)
        await run_until_idle(app)
    assert ran == expected
