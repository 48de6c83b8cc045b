"""The gateway as a program that the fault tests kill: a worker of `email:send`, until SIGTERM.

`fan-out` as its last argument lets it die by itself as soon as it has fanned out a mail.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from redrive import Redrive
from redrive.core.message import Delivery
from redrive.mail.gateway import Gateway
from redrive.mail.stored import Stored
from redrive.wiring import load


def make_gateway(folder: Path, store: str, relay: str, keep: int | None = None) -> Redrive:
    """The gateway of a test's folder and store."""
    flags: dict[str, object] = {
        "store": store,
        "profile": "development",
        "mail": relay,
        "worker.lease_s": 2.0,
        "worker.batch": 40,
    }
    if keep is not None:
        flags["finished.keep"] = keep
    app = Redrive(settings=load(flags, environ={}, folder=folder))
    app.serve_mail()
    return app


def die_after_fan_out() -> None:
    """The children are appended, and their parent is never settled."""
    original = Gateway._fan_out

    async def fan_out(self: Gateway, stored: Stored, delivery: Delivery) -> None:
        await original(self, stored, delivery)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(Gateway, "_fan_out", fan_out)  # noqa: B010 - a method is replaced on purpose


async def main(folder: Path, store: str, relay: str, *moments: str) -> None:
    if "fan-out" in moments:
        die_after_fan_out()
    async with make_gateway(folder, store, relay, 0 if moments else None) as app:
        await app.run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
