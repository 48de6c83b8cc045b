"""`python -m bench smtp`: our SMTP client alone, into Postfix's smtp-sink, beside smtp-source and aiosmtplib.

Mails of 2 KB to one recipient over ten connections on loopback; the clients take turns, round by round, each
in a process of its own, and the medians are compared. smtp-source (C) goes in lock-step on kept sessions.
Without Postfix's tools or aiosmtplib their goals are not shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from bench import table
from bench.goals import AtLeast, Goal
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.pool import Pool
from redrive.mail.smtp.relay import Relay
from redrive.mail.smtp.settings import SmtpPoolSettings

CONNECTIONS = 10
SENDER, RECIPIENT = "a@example.org", "b@example.org"
CONTENT = b"From: a@example.org\r\nTo: b@example.org\r\nSubject: bench\r\n\r\n" + (b"x" * 70 + b"\r\n") * 28
GOALS = (
    Goal("our client, kept sessions, against aiosmtplib", "ours", "/s", AtLeast(4.0, ("aiosmtplib",))),
    Goal("our client, kept sessions, against smtp-source", "ours", "/s", AtLeast(0.8, ("smtp-source",))),
    Goal("our client, 100 messages a connection", "ours, 100 a connection", "/s"),
    Goal("our client, without PIPELINING", "ours, lock-step", "/s"),
    Goal("peer: smtp-source, C", "smtp-source", "/s"),
    Goal("peer: aiosmtplib", "aiosmtplib", "/s"),
)
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print; 1 when a client failed."""
    options = _parser().parse_args(arguments)
    if shutil.which("smtp-sink", path=_PATH) is None:
        print("bench: smtp-sink is not installed: apt-get install postfix", file=sys.stderr)
        return 1
    seen: dict[str, list[float]] = {}
    failed = False
    for number in range(options.rounds):
        for name in _CLIENTS:
            print(f"bench: round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
            rate = _measure(name, options.messages)
            failed = failed or rate is None
            seen.setdefault(name, []).extend([] if rate is None else [rate])
    rows = [table.judge(goal, seen) for goal in GOALS]
    print(json.dumps({"rows": table.plain(rows), "rounds": seen}) if options.json else table.markdown(rows))
    return 1 if failed else 0


def _measure(name: str, messages: int) -> float | None:
    with _sink("-p" if name == "ours, lock-step" else None) as port:
        command = [sys.executable, "-m", "bench.smtp", name, str(port), str(messages)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print(f"bench: {name} failed: {answer.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return float(answer.stdout)


@contextmanager
def _sink(option: str | None) -> Iterator[int]:
    """A sink on a free port; `-p` takes PIPELINING away."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    options = [*(["-u", "root"] if os.getuid() == 0 else []), *([option] if option else [])]
    binary = shutil.which("smtp-sink", path=_PATH) or "smtp-sink"
    process = subprocess.Popen([binary, *options, f"127.0.0.1:{port}", "100"])
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.recv(64)
                connection.sendall(b"QUIT\r\n")
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("smtp-sink did not start")


async def _send_ours(port: int, messages: int, settings: SmtpPoolSettings) -> None:
    pool = Pool(Relay.parse(f"smtp://127.0.0.1:{port}"), settings)
    left = iter(range(messages))

    async def work() -> None:
        for _ in left:
            (reply,) = await pool.send(Envelope(SENDER, (RECIPIENT,), CONTENT))
            assert reply.accepted

    await asyncio.gather(*(work() for _ in range(4 * CONNECTIONS)))
    await pool.close()


async def _kept(port: int, messages: int) -> None:
    await _send_ours(port, messages, SmtpPoolSettings(connections=CONNECTIONS, messages=messages))


async def _default(port: int, messages: int) -> None:
    await _send_ours(port, messages, SmtpPoolSettings(connections=CONNECTIONS))


async def _aiosmtplib(port: int, messages: int) -> None:
    import aiosmtplib

    left = iter(range(messages))

    async def work() -> None:
        async with aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False) as client:
            for _ in left:
                await client.sendmail(SENDER, [RECIPIENT], CONTENT)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def _smtp_source(port: int, messages: int) -> None:
    binary = shutil.which("smtp-source", path=_PATH) or "smtp-source"
    arguments = f"-d -s {CONNECTIONS} -m {messages} -l {len(CONTENT)} -f {SENDER} -t {RECIPIENT}"
    process = await asyncio.create_subprocess_exec(binary, *arguments.split(), f"127.0.0.1:{port}")
    assert await process.wait() == 0


_CLIENTS: dict[str, Callable[[int, int], Awaitable[None]]] = {
    "smtp-source": _smtp_source,
    "ours": _kept,
    "aiosmtplib": _aiosmtplib,
    "ours, 100 a connection": _default,
    "ours, lock-step": _kept,
}


async def _time(name: str, port: int, messages: int) -> float:
    began_s = time.perf_counter()
    await _CLIENTS[name](port, messages)
    return messages / (time.perf_counter() - began_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/bench smtp", description="Our SMTP client alone.")
    parser.add_argument(
        "--messages", type=int, default=30_000, help="mails a client sends in a round (30,000)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (3)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the figures of every round")
    return parser


if __name__ == "__main__":
    print(asyncio.run(_time(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
