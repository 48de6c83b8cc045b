"""Postfix as a relay with its durable queue, on a free loopback port, from a folder of its own.

Uses the installed programs and nothing of the system's own configuration or queue. Postfix's defaults hold,
but for as many connections to the sink as ours has, from the first mail on, and no look-ups of names. Needs
root: Postfix changes to its own user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import Figures
from bench.sink import find_tool, free_port, smtp_sink, wait_for_greeting

CONNECTIONS = 10
MAIL_BYTES = 2_048
_MASTER = Path(__file__).with_name("postfix_master.cf")
_SENDER, _RECIPIENT = "a@example.org", "b@example.org"
_PATIENCE_S = 300.0
_LOOK_S = 0.005


class CannotRelay(Exception):
    """Postfix cannot be started here."""


def measure(folder: Path, mails: int) -> Figures:
    """Mails a second, from the first that smtp-source hands in to the last in the sink."""
    with smtp_sink(counter=folder / "count") as sink, _relay(folder, sink.port) as port:
        source = find_tool("smtp-source")
        options = f"-d -s {CONNECTIONS} -m {mails} -l {MAIL_BYTES} -f {_SENDER} -t {_RECIPIENT}"
        began_s = time.perf_counter()
        with subprocess.Popen([source, *options.split(), f"127.0.0.1:{port}"]) as client:
            try:
                ended_s = sink.wait_for(mails, patience_s=_PATIENCE_S, every_s=_LOOK_S)
            finally:
                client.terminate()
    return {"postfix end to end": mails / (ended_s - began_s)}


@contextmanager
def _relay(folder: Path, sink_port: int) -> Iterator[int]:
    """A relay to the sink while inside; its port."""
    if os.getuid() != 0:
        raise CannotRelay("Postfix starts as root only: run the bench as root to see this goal")
    port = free_port()
    configuration = _configure(folder, port, sink_port)
    try:
        _control(configuration, "start")
        wait_for_greeting(port)
        yield port
    finally:
        _control(configuration, "stop", check=False)


def _configure(folder: Path, port: int, sink_port: int) -> Path:
    configuration, queue, data = (folder / name for name in ("configuration", "queue", "data"))
    for place in (configuration, queue, data):
        place.mkdir()
    shutil.chown(data, "postfix")
    values = {
        "compatibility_level": "3.6",
        "queue_directory": str(queue),
        "data_directory": str(data),
        "maillog_file": str(folder / "mail.log"),
        "maillog_file_prefixes": str(folder),
        "inet_interfaces": "127.0.0.1",
        "inet_protocols": "ipv4",
        "myhostname": "relay.example",
        "mydestination": "",
        "mynetworks": "127.0.0.0/8",
        "relayhost": f"[127.0.0.1]:{sink_port}",
        "alias_maps": "",
        "alias_database": "",
        "disable_dns_lookups": "yes",
        "smtpd_peername_lookup": "no",
        "default_destination_concurrency_limit": str(CONNECTIONS),
        "initial_destination_concurrency": str(CONNECTIONS),
    }
    (configuration / "main.cf").write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    listening = f"127.0.0.1:{port} inet n - n - - smtpd\n"
    (configuration / "master.cf").write_text(_MASTER.read_text() + listening)
    return configuration


def _control(configuration: Path, verb: str, *, check: bool = True) -> None:
    command = [find_tool("postfix"), "-c", str(configuration), verb]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise CannotRelay(f"postfix {verb} failed: {why}")
