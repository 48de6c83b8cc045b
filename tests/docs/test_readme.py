"""The README's examples run as they are written."""

from __future__ import annotations

import asyncio
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
import types
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from redrive import DeadLetter, Delivery, Redrive, RetryPolicy, Submission, Temporary
from redrive.testing import run_until_idle, trial
from tests.programs import run

ROOT = Path(__file__).parents[2]
_OFFICE = ("dlq", "show", "ops", "audit", "doctor")


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)


def _shell_lines() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    lines = [
        shlex.split(line, comments=True)
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [line for line in lines if len(line) > 1]


def test_the_first_handler_runs_as_written(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_examples()[0])
    process = subprocess.Popen([sys.executable, "app.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert _wait_until_done(tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors


def _wait_until_done(folder: Path) -> bool:
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        status = run(["redrive", "status", "--json"], cwd=folder)
        if status.returncode == 0 and '"published": 1' in re.sub(r'":\s*', '": ', status.stdout):
            return True
    return False


async def test_the_other_examples_do_what_they_say(tmp_path: Path) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/redrive.db")

    @app.handler("orders")
    async def charge(order: dict[str, int]) -> None:
        raise Temporary("payment gateway timed out", code="504")

    testing = next(one for one in _examples() if "redrive.testing" in one)
    source = "async def example(app, charge, trial):\n"
    source += "".join(f"    {line}\n" for line in testing.splitlines() if not line.startswith("from"))
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102 - our own README
    await names["example"](app, charge, trial)  # type: ignore[operator]


async def test_the_commands_of_the_night_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/redrive.db")

    @app.handler("orders", retry=RetryPolicy(attempts=1))
    async def charge(order: dict[str, int]) -> None:
        raise Temporary("payment gateway timed out", code="504")

    async with app:
        receipt = await app.submit("orders", {"order_id": 7}, tenant="acme")
        await run_until_idle(app)
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path}/redrive.db")
    commands = [line for line in _shell_lines() if line[0] == "redrive" and line[1] in _OFFICE]
    assert len(commands) == 10
    for command in commands:
        arguments = [receipt.id if one == "ID" else one for one in command[1:]]
        more = ["--dry-run"] if "--canary" in arguments else []
        redrive = ["redrive", *arguments, *more]
        done = await asyncio.to_thread(run, redrive, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)


async def test_the_options_in_the_second_example_exist(tmp_path: Path) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/redrive.db")

    example = next(one for one in _examples() if "Submission(order" in one)
    source = "async def example(app, order, orders):\n"
    source += "".join(f"    {line}\n" for line in example.splitlines())
    names: dict[str, Any] = {
        "DeadLetter": DeadLetter,
        "Order": dict[str, int],
        "Delivery": Delivery,
        "RetryPolicy": RetryPolicy,
        "Submission": Submission,
        "timedelta": timedelta,
    }
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102 - our own README
    async with app:
        await names["example"](app, {"total": 1}, [{"total": 2}])
        assert [counts.scheduled + counts.pending for counts in await app.store.queues()] == [2]


def test_its_shell_lines_are_for_the_curl_of_an_old_machine() -> None:
    commands = [line for line in _shell_lines() if line[0] == "curl"]
    assert commands
    assert not any("--json" in command for command in commands)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


async def test_the_page_on_python_does_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    letters = next(one for one in re.findall(r"```python\n(.*?)```", page, re.S) if "app.dead_letters" in one)
    app = Redrive(f"sqlite:///{tmp_path}/redrive.db")

    @app.handler("orders", retry=RetryPolicy(attempts=1))
    async def charge(order: dict[str, int]) -> None:
        raise Temporary("payment gateway timed out", code="504")

    source = "async def example(app, timedelta):\n"
    source += "".join(f"    {line}\n" for line in letters.splitlines())
    names: dict[str, Any] = {}
    exec(compile(source, "python.md", "exec"), names)  # noqa: S102 - our own page
    async with app:
        await charge.submit({"total": 1}, tenant="acme")
        await run_until_idle(app)
        app.skew_ms += 3 * 3_600_000
        working = asyncio.create_task(app.run(signals=False))
        try:
            await names["example"](app, timedelta)
        finally:
            working.cancel()
            await asyncio.wait([working])


def test_every_page_of_the_documentation_is_linked() -> None:
    linked = set(re.findall(r"\]\(docs/([a-z-]+)\.md", (ROOT / "README.md").read_text("utf-8")))
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} - linked == set()


def test_a_package_index_shows_it_without_links_into_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build's own hook; its interface is there only while a wheel is built."""
    interface = types.ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    shown = runpy.run_path(str(ROOT / "script" / "index_readme.py"))["without_repository"](
        (ROOT / "README.md").read_text("utf-8")
    )
    assert re.findall(r"\]\((?!https?:)[^)]*\)", shown) == []
    named = set(re.findall(r"`redrive docs ([a-z-]+)`", shown))
    assert {"runbook", "filters", "http"} <= named
    assert all((ROOT / "docs" / f"{page}.md").is_file() for page in named)
