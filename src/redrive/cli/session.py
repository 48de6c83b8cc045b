"""What most commands need: the flags that choose a store, and that store, opened, with the office on it.

A command that only reads never creates a database: a wrong folder must not look like an empty store. None of
these commands accepts a message, so a server that is not safe for new ones may be looked at and fixed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cyclopts import Parameter

from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.config import Settings
from redrive.core.store import Store
from redrive.office.audit import Actor, this_account
from redrive.office.index import Index
from redrive.office.office import ActingOffice
from redrive.wiring import for_looking, load, make_index, make_office, make_store, store_file


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What every command takes. Flags win over the environment, that over redrive.toml, that over code."""

    store: str | None = None
    """The store, such as sqlite:///redrive.db or redis://localhost/0."""

    data: Path | None = None
    """The folder of the SQLite file."""

    profile: str | None = None
    """How retries are spaced: production, development or mta."""

    config: Path | None = None
    """A file to read instead of redrive.toml."""

    json: bool = False
    """Print one JSON document."""

    def settings(self, code: Mapping[str, str] | None = None, /, **more: object) -> Settings:
        """The settings that these flags, and `more` of them, lead to; `code` is what an app itself names."""
        chosen = {"store": self.store, "data": self.data, "profile": self.profile, "config": self.config}
        return load({**chosen, **more}, code=code)


NO_FLAGS = Flags()


class Session:
    """An open store and the office on it, for the person at the terminal."""

    def __init__(self, output: Output, settings: Settings, store: Store) -> None:
        self.output = output
        self.settings = settings
        self.store = store
        self.actor = operator()

    @cached_property
    def index(self) -> Index:
        """What finds letters; made when it is first asked."""
        return make_index(self.store, self.settings)

    @cached_property
    def office(self) -> ActingOffice:
        """The office's verbs for this person."""
        office = make_office(self.store, self.index, self.settings.policy, self.settings)
        return office.acting(self.actor, files=True)

    async def close(self) -> None:
        """Let go of the index; the store is closed by whoever opened it."""
        if "index" in self.__dict__:
            await self.index.close()


@asynccontextmanager
async def session(flags: Flags, *, create: bool = False) -> AsyncIterator[Session]:
    """The office on the store that exists, or with `create` on a new one."""
    settings = flags.settings()
    async with open_store(settings, create=create) as store:
        current = Session(Output(flags.json), settings, store)
        try:
            yield current
        finally:
            await current.close()


@asynccontextmanager
async def open_store(settings: Settings, *, create: bool = False) -> AsyncIterator[Store]:
    """Open the store that exists, or with `create` a new one, and close it."""
    store = make_store(for_looking(settings))
    if not create:
        refuse_missing(settings.store)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def refuse_missing(url: str) -> None:
    """UNREACHABLE when the URL names a file that does not exist."""
    file = store_file(url)
    if file is not None and not file.exists():
        raise CommandError(
            f"no store at {file.absolute()} yet: start with `redrive up` or `redrive send`, "
            "or name another with --store or --data",
            Exit.UNREACHABLE,
        )


def operator() -> Actor:
    """Who is at the terminal."""
    return this_account("cli")
