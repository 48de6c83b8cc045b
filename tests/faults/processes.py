"""Starting, killing and watching the child processes of one test, each by its own id.

Whatever a test does, all its children are gone when its `Site` closes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from redrive import Redrive
from redrive.core.lifecycle import State
from redrive.core.message import Progress
from tests.faults.checks import Evidence, Key, read_accounts
from tests.faults.child import make_app
from tests.faults.handlers import ORDERS
from tests.faults.ledger import ACCEPTED, HANDED, Ledger, Line, Plan, Reader
from tests.faults.starvation import Starvation
from tests.programs import Program
from tests.servers import ask
from tests.waiting import Condition, wait_until

START_S = 15.0
END_S = 40.0
SETTLED = ("completed", "buried", "retried", "released", "refused")


class Child:
    """One running program."""

    def __init__(self, process: Program, errors: Path) -> None:
        self._process = process
        self._errors = errors

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def stopped(self) -> bool:
        """Whether a SIGSTOP has stopped it."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("T")

    @property
    def errors(self) -> str:
        """What it wrote on stderr."""
        return self._errors.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    async def ended(self, timeout_s: float = START_S) -> int:
        """Its exit code, once it ended."""
        await wait_until(lambda: not self.running, timeout_s, f"process {self.pid} ends")
        return self._process.wait()


class Site:
    """The folder of one test: its store, its ledgers, its children, and the in-flight ids at each kill."""

    def __init__(self, folder: Path, store: str, app: Redrive) -> None:
        self.folder = folder
        self.store = store
        self.app = app
        self.evidence = Evidence()
        self._ledger = Ledger(folder / ACCEPTED)
        self._submits = Reader(folder / ACCEPTED)
        self._work = Reader(folder / HANDED)
        self._children: list[Child] = []
        self._done: set[str] = set()
        self._noted: set[int] = set()
        self._server: int | None = None

    def start(self, program: str, **options: object) -> Child:
        """Start a child; options are its arguments, True stands for a bare flag."""
        arguments = ["tests.faults.child", program, str(self.folder), self.store]
        for name, value in options.items():
            arguments += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        errors = self.folder / f"child-{len(self._children)}.err"
        with errors.open("wb") as file:
            process = Program(arguments, env=_environment(), stdout=file, stderr=file)
        child = Child(process, errors)
        self._children.append(child)
        return child

    async def start_worker(self, **options: object) -> Child:
        """Start a worker and wait until it works."""
        child = self.start("work", **options)
        await wait_until(lambda: self._has_started(child), START_S, "the worker starts")
        return child

    def handed(self, what: str, message_id: str | None = None) -> list[Line]:
        """Lines of the workers' ledger of one kind."""
        lines = self._work.lines()
        return [line for line in lines if line.what == what and message_id in (None, line.id)]

    def accepted(self) -> list[Line]:
        return self.submits("accepted")

    def submits(self, what: str) -> list[Line]:
        """Lines of the submitters' ledger of one kind."""
        return [line for line in self._submits.lines() if line.what == what]

    async def submit(self, plan: Plan, queue: str = ORDERS) -> str:
        """Submit one message from the test itself; its id."""
        receipt = await self.app.submit(queue, plan)
        self.note_accepted([receipt.id], plan)
        return receipt.id

    def note_accepted(self, ids: Iterable[str], plan: Plan) -> None:
        """Messages that were put into the store by other ways."""
        for message_id in ids:
            self._ledger.write(Line(what="accepted", id=message_id, note=message_id, plan=plan))

    async def wait_for(self, what: str, message_id: str | None = None, count: int = 1) -> list[Line]:
        """The lines of a kind, once there are `count` of them."""
        await wait_until(
            lambda: len(self.handed(what, message_id)) >= count, END_S, f"{count} lines say {what}"
        )
        return self.handed(what, message_id)

    def touched_since(self, instant_s: float) -> set[str]:
        """The ids that any line since an instant is about."""
        lines = self._submits.lines() + self._work.lines()
        return {line.id for line in lines if line.at_s >= instant_s and line.id}

    async def wait_until(self, condition: Condition, what: str) -> None:
        """Wait for something that the ledgers or the store will show."""
        await wait_until(condition, END_S, what)

    @property
    def pids(self) -> list[int]:
        """The processes that have a part in it: the children, and the server of the store."""
        found = [child.pid for child in self._children]
        return found if self._server is None else [*found, self._server]

    def starvation(self) -> Starvation:
        """How long there is no processor for any of them."""
        self._server = _server_pid(self.store)
        return Starvation(lambda: self.pids)

    @contextmanager
    def within(self, limit_s: float, what: str) -> Iterator[None]:
        """What is waited for in here takes less, beside the time in which there was no processor for it."""
        with self.starvation() as starvation:
            began_s = time.monotonic()
            yield
            took_s = starvation.beside(began_s, time.monotonic())
        assert took_s < limit_s, f"{what} after {took_s:.1f} s"

    async def progress(self, message_id: str) -> Progress:
        account = await self.app.store.get(message_id)
        assert account is not None, f"the store does not know {message_id}"
        return account.progress

    async def wait_state(self, message_id: str, state: State) -> Progress:
        """The progress of a message, once it is in a state."""

        async def reached() -> bool:
            return (await self.progress(message_id)).state is state

        await wait_until(reached, END_S, f"{message_id} is {state}")
        return await self.progress(message_id)

    async def note_kill(self, survivors: Iterable[Child] = ()) -> None:
        """Remember what the killed worker held: only that may be handed over again.

        That is what it claimed and did not settle by its own ledger, and what is claimed in the store and no
        survivor says is its own.
        """
        alive = {child.pid for child in survivors}
        self.evidence.noted_s.append(time.monotonic())
        holders = self._holders()
        held = {key for key, pid in holders.items() if pid not in alive}
        self._done |= {line.id for line in self.handed("completed")}
        accounts = await read_accounts(self.app.store, self._known() - self._done)
        for message_id, account in accounts.items():
            if account.state is State.DONE:
                self._done.add(message_id)
            elif account.state is State.CLAIMED:
                key = (message_id, account.progress.generation)
                if holders.get(key) not in alive:
                    held.add(key)
        self.evidence.held.append(frozenset(held))

    def _holders(self) -> dict[Key, int]:
        """Which process, by its own ledger, holds what."""
        holders: dict[Key, int] = {}
        for line in self._work.lines():
            if line.what == "claimed":
                holders[line.id, line.generation] = line.pid
            elif line.what in SETTLED and holders.get((line.id, line.generation)) == line.pid:
                del holders[line.id, line.generation]
        dead = {child.pid for child in self._children if not child.running}
        newly_dead = dead - self._noted
        self._noted |= dead
        return {key: pid for key, pid in holders.items() if pid not in dead or pid in newly_dead}

    async def wait_idle(self, timeout_s: float = END_S) -> float:
        """Wait until every message has come to its end."""

        async def idle() -> bool:
            queues = await self.app.store.queues()
            return not any(
                each.pending + each.scheduled + each.retry_scheduled + each.processing + each.suspects
                for each in queues
            )

        return await wait_until(idle, timeout_s, "everything has come to its end")

    async def violations(self) -> list[str]:
        """What the invariants say about both ledgers and the store."""
        await self.evidence.collect(self.app.store, self.folder)
        return self.evidence.violations()

    def _known(self) -> set[str]:
        return {line.id for line in self._submits.lines()}

    def _has_started(self, child: Child) -> bool:
        assert child.running, f"the worker ended at its start:\n{child.errors}"
        return any(line.pid == child.pid for line in self.handed("started"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            if child.running:
                child.signal(signal.SIGCONT)
                child.kill()
        if error is not None:
            for child in self._children:
                print(f"stderr of {child.pid}:", child.errors[-1500:])
        self._ledger.close()


def _server_pid(store: str) -> int | None:
    if not store.startswith("redis"):
        return None
    said = ask(urlsplit(store).port or 0, "INFO", "server").decode()
    return int(said.partition("process_id:")[2].split()[0])


def _environment() -> dict[str, str]:
    """Ours without the settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}


@asynccontextmanager
async def open_site(folder: Path, store: str, of_children: str | None = None) -> AsyncIterator[Site]:
    """A site whose app is open in the test's own process; children are stopped at the end.

    `of_children` is the address under which the children reach the same store, where it is another.
    """
    async with make_app(folder, store) as app:
        with Site(folder, of_children or store, app) as site:
            yield site
