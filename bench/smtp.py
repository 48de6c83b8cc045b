"""`python -m bench smtp`: our SMTP client alone, into Postfix's smtp-sink, beside smtp-source and aiosmtplib.

Mails of 2 KB to one recipient over ten connections on loopback; the clients take turns, round by round, each
in a process of its own, and the medians are compared. smtp-source (C) goes in lock-step on kept sessions.
Without Postfix's tools or aiosmtplib their goals are not shown.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from bench.goals import AtLeast, Goal
from bench.load import Figures
from bench.report import report
from bench.running import Results
from bench.sink import ToolMissing, find_tool, smtp_sink
from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.pool import Pool
from redrive.mail.smtp.relay import Relay

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


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print; 1 when a client failed."""
    options = _parser().parse_args(arguments)
    results = Results()
    try:
        for number in range(options.rounds):
            print(f"bench: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            results.add(measure(options.messages))
    except ToolMissing as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(report(GOALS, results.rounds, as_json=options.json))
    return 0 if set(results.rounds) == set(_CLIENTS) else 1


def measure(messages: int) -> Figures:
    """Mails a second of each client, one after the other; a client that fails leaves no figure."""
    rates = {name: _ask(name, messages) for name in _CLIENTS}
    return {name: rate for name, rate in rates.items() if rate is not None}


def _ask(name: str, messages: int) -> float | None:
    # Without -p the sink offers PIPELINING.
    with smtp_sink(*(["-p"] if name == "ours, lock-step" else [])) as sink:
        command = [sys.executable, "-m", "bench.smtp", name, str(sink.port), str(messages)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print(f"bench: {name} failed: {answer.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return float(answer.stdout)


async def _send_ours(port: int, messages: int, settings: SmtpSettings) -> None:
    pool = Pool(Relay.parse(f"smtp://127.0.0.1:{port}"), settings)
    left = iter(range(messages))

    async def work() -> None:
        for _ in left:
            (reply,) = await pool.send(Envelope(SENDER, (RECIPIENT,), CONTENT))
            assert reply.accepted

    await asyncio.gather(*(work() for _ in range(4 * CONNECTIONS)))
    await pool.close()


async def _kept(port: int, messages: int) -> None:
    await _send_ours(port, messages, SmtpSettings(connections=CONNECTIONS, messages=messages))


async def _default(port: int, messages: int) -> None:
    await _send_ours(port, messages, SmtpSettings(connections=CONNECTIONS))


async def _aiosmtplib(port: int, messages: int) -> None:
    import aiosmtplib

    left = iter(range(messages))

    async def work() -> None:
        async with aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False) as client:
            for _ in left:
                await client.sendmail(SENDER, [RECIPIENT], CONTENT)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def _smtp_source(port: int, messages: int) -> None:
    arguments = f"-d -s {CONNECTIONS} -m {messages} -l {len(CONTENT)} -f {SENDER} -t {RECIPIENT}"
    process = await asyncio.create_subprocess_exec(
        find_tool("smtp-source"), *arguments.split(), f"127.0.0.1:{port}"
    )
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
