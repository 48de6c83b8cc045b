"""The systemd units: systemd itself reads them, and they run commands of ours with time to drain."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.core.settings import WorkerSettings
from tests.deploy.files import DEPLOY, check_command, check_variable
from tests.servers import give_up

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DRAIN_S = WorkerSettings().drain_s + WorkerSettings().lease_s


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return parser["Service"]


def environment(name: str) -> dict[str, str]:
    lines = (DEPLOY / "systemd" / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_reads_a_unit_without_a_complaint(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        give_up("systemd-analyze is not installed: apt-get install systemd")
    installed = tmp_path / unit.name
    command = Path(sys.executable).with_name("redrive")
    installed.write_text(unit.read_text().replace("/opt/redrive/bin/redrive", str(command)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", installed], capture_output=True, text=True, check=False
    )
    complaints = [line for line in verified.stderr.splitlines() if unit.name in line]
    assert (verified.returncode, complaints) == (0, [])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_of_ours_and_hears_that_it_is_ready(unit: Path) -> None:
    read = service(unit)
    program, *words = read["ExecStart"].split()
    assert program == "/opt/redrive/bin/redrive"
    given = environment("worker.env")["ARGUMENTS"].split()
    check_command([part for word in words for part in (given if word == "$ARGUMENTS" else [word])])
    assert (read["Type"], read["NotifyAccess"], read["User"]) == ("notify", "main", "redrive")
    for variable in ("NoNewPrivileges", "PrivateTmp", "ProtectHome"):
        assert read[variable] == "yes"


def test_a_worker_may_drain_before_it_is_killed() -> None:
    read = service(DEPLOY / "systemd/redrive-worker.service")
    assert float(read["TimeoutStopSec"]) > DRAIN_S
    assert read["KillMode"] == "mixed"


def test_the_variables_are_read_and_hold_no_secret() -> None:
    for name in environment("redrive.env"):
        check_variable(name)
    assert environment("redrive.env")["REDRIVE_STORE"].startswith("sqlite:////var/lib/redrive/")
