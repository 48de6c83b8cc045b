"""Real servers for the tests: started on a free port in a temporary folder, stopped by process id.

A missing binary skips the test at home, with the reason, and fails it where CI=true. Known weakness: a
free port may be taken between finding it and using it; the start is then tried again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_STARTS = 3
_READY_TRIES = 250
_READY_PAUSE_S = 0.02


@dataclass(frozen=True)
class RedisServer:
    """A running server of our own and its address."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_redis(folder: Path) -> RedisServer:
    """A redis-server with its append-only file in `folder`, ready for connections."""
    binary = shutil.which("redis-server")
    if binary is None:
        give_up("redis-server is not installed: apt-get install redis-server")
    for _ in range(_STARTS):
        port = free_port()
        server = RedisServer(f"redis://127.0.0.1:{port}/0", _spawn(str(binary), folder, port))
        if _is_ready(server.process, port):
            return server
        server.stop()
    log = (folder / "redis.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"redis-server did not become ready in {folder}; its log ends with:\n{log}")


def give_up(reason: str) -> None:
    """Skip at home, fail in CI: a suite that skips its servers there proves nothing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _spawn(binary: str, folder: Path, port: int) -> subprocess.Popen[bytes]:
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(folder),
        "logfile": str(folder / "redis.log"),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    for _ in range(_READY_TRIES):
        if _answers_ping(port):
            return True
        try:
            process.wait(timeout=_READY_PAUSE_S)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _answers_ping(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
