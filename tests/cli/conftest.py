"""A shop folder with a store in it, and the command run there in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from redrive import Permanent, Redrive, Temporary
from redrive.cli import run
from redrive.config.keys import VARIABLES
from redrive.testing import Clock, run_until_idle

T = TypeVar("T")
MENDED = "mended"
"""A file of this name in the shop's folder: the causes are gone, and every handler succeeds."""


@dataclass(frozen=True)
class Result:
    """What one command came to."""

    code: int
    out: str
    error: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)


class Shop:
    """Runs commands in its folder, and handlers that fail as their payload says."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def __call__(self, *arguments: str) -> Result:
        self._capture.readouterr()
        code = run(arguments)
        return Result(code, *self._capture.readouterr())

    def ok(self, *arguments: str) -> Any:
        """The document of a command that has to succeed."""
        result = self(*arguments, "--json")
        assert result.code == 0, result.error
        assert result.error == ""
        return result.document

    def send(self, payload: object = 1, *flags: str, queue: str = "orders") -> str:
        """Submit a message; its id."""
        return str(self.ok("send", queue, json.dumps(payload), *flags)["jobId"])

    def work(self, *, jump: bool = True) -> None:
        """Run all that is due; with `jump` also what is scheduled."""

        async def body(app: Redrive) -> None:
            await run_until_idle(app, clock=Clock(app) if jump else None)

        self.with_app(body)

    def with_app(self, body: Callable[[Redrive], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with the open app."""

        async def opened() -> T:
            async with make_app() as app:
                return await body(app)

        return asyncio.run(opened())

    def bury(self, reason: str = "card was declined", *flags: str, queue: str = "orders") -> str:
        """A dead letter; its id."""
        message_id = self.send({"permanent": reason}, *flags, queue=queue)
        self.work()
        return message_id


def make_app() -> Redrive:
    app, mended = Redrive(), Path(MENDED).exists()

    async def handle(payload: Any) -> None:
        answers = payload if isinstance(payload, dict) and not mended else {}
        if "permanent" in answers:
            raise Permanent(answers["permanent"], code="402")
        if "temporary" in answers:
            raise Temporary(answers["temporary"], code="503")

    for queue in ("orders", "email:send"):
        app.handler(queue)(handle)
    return app


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shop:
    for variable in (*VARIABLES, "REDRIVE_CONFIG", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, capsys)


@pytest.fixture
def late_retries(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed for now is tried again in an hour: however slow this machine is, it still waits."""
    for variable in ("REDRIVE_RETRY_BASE_S", "REDRIVE_RETRY_CAP_S"):
        monkeypatch.setenv(variable, "3600")
