"""A real RabbitMQ for the tests: a private node on free ports of the loopback in a temporary folder, with an
epmd and a cookie of its own, so that neither the machine's broker nor another test run meets it.

The process that `stop` and `kill` end is the Erlang machine itself. A missing binary skips the test at home,
with the reason, and fails it where CI=true. Another version than this system's runs from a folder that
script/rabbitmq-root made, named by the variable RABBITMQ_ROOT. Known weakness: a free port may be taken
between finding it and using it; the start is then tried again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import httpx

from tests.servers import free_port, give_up

_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
"""Debian's own scripts: the ones on the PATH change to the user rabbitmq, and to its folder."""

_STARTS = 3
_READY_S = 35.0
_PAUSE_S = 0.05
_STOP_S = 30.0
_GREETING = b"AMQP\x00\x00\x09\x01"
_MANAGEMENT = "rabbitmq_management"
_MACHINE = "-noinput +S 2:2 -kernel inet_dist_use_interface {127,0,0,1}"


@dataclass
class RabbitServer:
    """A broker of our own: its ports, its folder, and the processes that are it."""

    folder: Path
    plugins: tuple[str, ...]
    more: str
    root: Path | None = None
    port: int = field(default_factory=free_port)
    management_port: int = field(default_factory=free_port)
    epmd_port: int = field(default_factory=free_port)
    distribution_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    epmd: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def management_url(self) -> str:
        """Where the management plugin answers, when it is among the plugins."""
        return f"http://guest:guest@127.0.0.1:{self.management_port}"

    def virtual_host(self, name: str) -> str:
        """A virtual host of that name, made when it is new; its address for AMQP."""
        httpx.put(f"{self.management_url}/api/vhosts/{name}", timeout=30).raise_for_status()
        return f"{self.url}{name}"

    @property
    def node(self) -> str:
        return f"redrive-{self.port}@localhost"

    def start(self) -> None:
        """Start it, or start it again with what it kept."""
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        (self.folder / "rabbitmq.conf").write_text(self._configuration())
        if self.epmd is None:
            self.epmd = self._spawn("epmd", "-port", str(self.epmd_port), "-address", "127.0.0.1")
        self.process = self._spawn(str(_SCRIPTS / "rabbitmq-server"))
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            self.stop()
            raise

    def stop(self) -> None:
        """End it in order."""
        self._end(self.process)
        self._end(self.epmd)
        self.process = self.epmd = None

    def kill(self) -> None:
        """As a machine that loses its power: SIGKILL, nothing is said to anyone. `start` brings it back."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def lose_everything(self) -> None:
        """As a broker whose disk was replaced: back with nothing."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.start()

    def import_definitions(self, text: str) -> None:
        """As an operator does, by rabbitmqctl from a file."""
        (self.folder / "definitions.json").write_text(text)
        self.control("import_definitions", self._inside("definitions.json"))

    def control(self, *arguments: str) -> str:
        """What rabbitmqctl prints about this node."""
        done = subprocess.run(
            self._command(str(_SCRIPTS / "rabbitmqctl"), "--node", self.node, *arguments),
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _configuration(self) -> str:
        return (
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "disk_free_limit.absolute = 1MB\n"
            "vm_memory_high_watermark.absolute = 1GB\n"
            + ("" if self.root is None else "vm_memory_calculation_strategy = erlang\n")  # it has no /proc
            + (
                f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.management_port}\n"
                if _MANAGEMENT in self.plugins
                else ""
            )
            + self.more
        )

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"] if self.root is None else "/usr/sbin:/usr/bin",
            "LANG": "C.UTF-8",
            "HOME": self._inside(""),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONF_ENV_FILE": self._inside("rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": self._inside("rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._inside("enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": self._inside("data"),
            "RABBITMQ_LOG_BASE": self._inside("log"),
            "RABBITMQ_LOGS": self._inside("broker.log"),
            # The script then becomes the Erlang machine instead of starting one: its process id is ours.
            "RABBITMQ_ALLOW_INPUT": "true",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _MACHINE,
        }

    def _command(self, *words: str) -> list[str]:
        return [*words] if self.root is None else ["chroot", str(self.root), *words]

    def _inside(self, name: str) -> str:
        """A file of the folder as the broker names it."""
        path = self.folder / name
        return str(path if self.root is None else Path("/") / path.relative_to(self.root))

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "output.log").open("ab") as output:
            return subprocess.Popen(
                self._command(*words),
                env=self._environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            if _answers(self.port) and self._is_managed():
                return
            assert self.process is not None
            if self.process.poll() is not None:
                break
            time.sleep(_PAUSE_S)
        log = (self.folder / "output.log").read_text(errors="replace")[-3000:]
        raise RuntimeError(f"rabbitmq-server did not become ready in {self.folder}; it said:\n{log}")

    def _is_managed(self) -> bool:
        """Whether the management API answers, where there is one."""
        if _MANAGEMENT not in self.plugins:
            return True
        try:
            return httpx.get(f"{self.management_url}/api/overview", timeout=30).is_success
        except httpx.TransportError:
            return False

    @staticmethod
    def _end(process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_rabbitmq(
    folder: Path, *, management: bool = False, plugins: tuple[str, ...] = (), more: str = ""
) -> RabbitServer:
    """A broker with its data in `folder`, ready for connections; `more` are lines of rabbitmq.conf."""
    root = Path(os.environ["RABBITMQ_ROOT"]) if os.environ.get("RABBITMQ_ROOT") else None
    scripts = _SCRIPTS if root is None else root / _SCRIPTS.relative_to("/")
    if not (scripts / "rabbitmq-server").exists() or (root is None and shutil.which("epmd") is None):
        give_up("rabbitmq-server is not installed: apt-get install rabbitmq-server")
    plugins = (*plugins, _MANAGEMENT) if management else plugins
    for attempt in range(_STARTS):
        here = folder if root is None else Path(mkdtemp(prefix="redrive-", dir=root / "tmp"))
        server = RabbitServer(here, plugins, more, root)
        try:
            server.start()
        except RuntimeError:
            if attempt == _STARTS - 1:
                raise
        else:
            return server
    raise AssertionError("unreachable")


def _answers(port: int) -> bool:
    """Whether the broker begins a conversation; the port opens before it can."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(_GREETING)
            return connection.recv(8)[:1] == b"\x01"
    except OSError:
        return False
