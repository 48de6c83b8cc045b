"""A loop that a handler has blocked for good ends its process, unless the program says otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys, threading, time
from datetime import timedelta
from redrive import Redrive
from redrive.wiring import load

flags = {"store": "sqlite:///stuck.db", "worker.lease_s": 3.0}
app = Redrive(settings=load(flags, environ={}))

@app.handler("orders", deadline=timedelta(seconds=0.2))
async def block(payload):
    print("begun", flush=True)
    threading.Event().wait()

async def main(**options):
    await app.submit("orders", 1)
    await app.run(**options)

if sys.argv[1:] == ["own"]:
    asyncio.run(main(on_stuck=lambda: os._exit(7)))
asyncio.run(main())
"""


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("own",), 7)])
def test_a_program_of_the_users_own_ends_when_its_loop_is_stuck_past_every_deadline(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "begun\n"), ended.stderr
    if code == 1:
        assert "blocked the event loop" in ended.stderr
