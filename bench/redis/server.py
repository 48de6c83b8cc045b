"""A redis-server of a probe's own, and what it says of its processor time and memory.

Every peer meets the same server: the settings we ship, with more memory, on the disk the run was given.
Stopped by process id.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as NotYet

from bench.load import free_port

SETTINGS = Path(__file__).resolve().parent.parent.parent / "deploy" / "redis.conf"
MEMORY = "4gb"
_READY_S = 10.0


class NoServer(Exception):
    """There is no redis-server to start, or it does not become ready."""


def version() -> str:
    """The server's version; NoServer when it is not installed."""
    words = subprocess.run(
        [_binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout.split()
    return next(word.removeprefix("v=") for word in words if word.startswith("v="))


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a server that runs while the block does."""
    port = free_port()
    own = {"port": str(port), "bind": "127.0.0.1", "dir": str(folder), "maxmemory": MEMORY}
    command = [
        _binary(),
        str(SETTINGS),
        *(part for name, value in own.items() for part in (f"--{name}", value)),
    ]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        _wait_until_ready(url, process)
        yield url
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True, slots=True)
class Meter:
    """Reads a server, without being noticed much."""

    client: Redis

    @classmethod
    def of(cls, url: str) -> Meter:
        """A meter at an address; a prefix in it is of no matter."""
        return cls(Redis.from_url(url.partition("?")[0]))

    def processor_s(self) -> float:
        """Seconds of processor the whole server took, its background writes included."""
        found = self.client.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    def scripts_s(self) -> float:
        """Seconds the server spent in scripts."""
        found = self.client.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
        return float(sum(found[name]["usec"] for name in names if name in found)) / 1e6

    def memory(self) -> int:
        """Bytes of data."""
        return int(self.client.info("memory")["used_memory"])


def _binary() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise NoServer("redis-server is not installed: apt-get install redis-server")
    return found


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    ends_s = time.monotonic() + _READY_S
    with Redis.from_url(url) as client:
        while time.monotonic() < ends_s and process.poll() is None:
            try:
                client.ping()
            except NotYet:
                time.sleep(0.02)
            else:
                return
    raise NoServer(f"redis-server did not become ready at {url}")
