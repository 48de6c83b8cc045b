"""What systemd hears of a worker and of the API, on a real socket: when each is ready, and when it stops."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.machine.supervisor import say_ready
from tests.cli.conftest import Shop
from tests.cli.processes import ENVIRONMENT, started
from tests.programs import Program

APP = """
from redrive import Redrive
app = Redrive()
@app.handler("orders")
async def charge(order): ...
"""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A process manager's socket, which the commands that are started know of."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        monkeypatch.setitem(ENVIRONMENT, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def heard(manager: socket.socket) -> dict[str, str]:
    lines = manager.recv(4_096).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def end(process: Program) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_worker_is_ready_when_it_serves_and_says_that_it_drains(shop: Shop, manager: socket.socket) -> None:
    (shop.folder / "shop.py").write_text(APP)
    with started(shop.folder, "worker", "shop:app") as process:
        assert heard(manager) == {"READY": "1", "STATUS": "serving orders"}
        end(process)
    assert heard(manager) == {"STOPPING": "1", "STATUS": "0 running, with 30 s to finish"}


def test_several_apps_in_one_worker_are_ready_together(shop: Shop, manager: socket.socket) -> None:
    (shop.folder / "shop.py").write_text(APP + APP.replace("app", "other").replace("orders", "refunds"))
    with started(shop.folder, "worker", "shop:app", "shop:other") as process:
        ready = heard(manager)
        assert sorted(ready["STATUS"].removeprefix("serving ").split(", ")) == ["orders", "refunds"]
        end(process)
    assert heard(manager)["STOPPING"] == "1"


def test_several_processes_are_ready_when_all_are_and_one_of_them_says_so(
    shop: Shop, manager: socket.socket
) -> None:
    (shop.folder / "shop.py").write_text(APP)
    with started(shop.folder, "worker", "shop:app", "--processes", "2") as process:
        assert heard(manager) == {"READY": "1", "STATUS": "2 processes are up"}
        end(process)
    assert heard(manager) == {"STOPPING": "1", "STATUS": "2 processes have 60 s to finish"}
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard(manager)


def test_a_worker_that_waits_for_its_store_is_not_ready(shop: Shop, manager: socket.socket) -> None:
    (shop.folder / "shop.py").write_text(APP)
    with started(shop.folder, "worker", "shop:app", "--store", "redis://127.0.0.1:1/0") as process:
        assert process.stderr is not None
        process.stderr.readline()
        manager.settimeout(0.5)
        with pytest.raises(TimeoutError):
            heard(manager)


@pytest.mark.parametrize(
    ("app", "status"), [((), "listening on http://127.0.0.1:"), (("shop:app",), "serving orders")]
)
def test_the_api_is_ready_when_it_listens_and_says_that_it_stops(
    shop: Shop, manager: socket.socket, app: tuple[str, ...], status: str
) -> None:
    (shop.folder / "shop.py").write_text(APP)
    with started(shop.folder, "serve", *app, "--listen", "127.0.0.1:0") as process:
        ready = heard(manager)
        assert ready["READY"] == "1"
        assert ready["STATUS"].startswith(status)
        end(process)
    assert heard(manager)["STOPPING"] == "1"


@pytest.mark.parametrize("address", ["", "/nobody/listens/here", "@nobody-listens-here", "relative"])
def test_a_manager_that_does_not_listen_is_no_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    say_ready("serving")


def test_a_manager_that_reads_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        for _ in range(5_000):
            say_ready("serving")


def test_the_abstract_address_of_linux_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{tmp_path.name}")
        listener.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path.name}")
        say_ready("serving")
        assert heard(listener) == {"READY": "1", "STATUS": "serving"}
