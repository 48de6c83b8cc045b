"""The gateway as a program that the fault tests kill: a worker of `email:send`, until SIGTERM."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from redrive import Redrive
from redrive.config import load


def make_gateway(folder: Path, store: str, relay: str) -> Redrive:
    """The gateway of a test's folder and store."""
    flags = {
        "store": store,
        "profile": "development",
        "mail": relay,
        "worker.lease_s": 1.0,
        "worker.batch": 40,
    }
    app = Redrive(settings=load(flags, environ={}, folder=folder))
    app.serve_mail()
    return app


async def main(folder: Path, store: str, relay: str) -> None:
    async with make_gateway(folder, store, relay) as app:
        await app.run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
