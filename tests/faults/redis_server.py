"""A Redis of one test's own that it may kill, restart on the same port with its data, and pause.

Real faults of a real process: SIGKILL, SIGSTOP. The machine does not die here: what the server has given to
the kernel is kept, so the last fsync's window is not what these tests can show.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.servers import free_port, give_up
from tests.waiting import wait_until

READY_S = 15.0


class FaultyRedis:
    """One server in a folder; the same port and the same append-only file at each start."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._folder = folder
        self._port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        """Start, and wait until it has read its data."""
        self._process = self._spawn()
        await wait_until(self._answers, READY_S, "the server answers")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """It stands still, its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def command(self, *parts: str) -> Any:
        """One command on a connection of its own."""
        client: Any = Redis.from_url(self.url)
        try:
            return await client.execute_command(*parts)
        finally:
            await client.aclose()

    async def has_written(self) -> bool:
        """Whether all that it ever answered for is in its append-only file."""
        said: dict[str, int] = await self.command("INFO", "persistence")
        return said["aof_buffer_length"] == 0

    def lose_end(self, count: int) -> None:
        """Cut bytes from the end of the append-only file, as a lying disk would."""
        (file,) = self._folder.glob("appendonlydir/*.incr.aof")
        with file.open("rb+") as opened:
            opened.truncate(max(0, file.stat().st_size - count))

    def _spawn(self) -> subprocess.Popen[bytes]:
        binary = shutil.which("redis-server")
        if binary is None:
            give_up("redis-server is not installed: apt-get install redis-server")
        arguments = [part for name, value in self._settings().items() for part in (f"--{name}", value)]
        return subprocess.Popen(
            [str(binary), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended: {self._log()}"
        try:
            return bool(await self.command("PING"))
        except (RedisError, OSError):
            return False

    def _log(self) -> str:
        return (self._folder / "redis.log").read_text(errors="replace")[-2000:]

    def _settings(self) -> dict[str, str]:
        return {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "logfile": str(self._folder / "redis.log"),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        } | {name.replace("_", "-"): value for name, value in self._options.items()}


@asynccontextmanager
async def open_redis(folder: Path, **options: str) -> AsyncIterator[FaultyRedis]:
    """A running server with these settings, gone at the end."""
    home = folder / "redis"
    home.mkdir()
    server = FaultyRedis(home, **options)
    try:
        await server.start()
        yield server
    finally:
        server.kill()
