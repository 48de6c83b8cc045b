"""Where settings come from: the code, the file, the environment, the flags; later ones win.

The only reader of os.environ. An empty variable is one that is not set. A value that a later source
overrides is still checked: a mistake does not wait for the day the override goes.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redrive.config.keys import NAMED, NAMES, SECTIONS, VARIABLES, Given, check, mask_url, nearest
from redrive.config.settings import (
    DEFAULT_LISTEN,
    DEFAULT_MAIL,
    DEFAULT_PROFILE,
    DEFAULT_STORE,
    Settings,
    overlay,
)
from redrive.core.errors import ConfigurationError
from redrive.core.grants import SenderDomains
from redrive.core.retry import PROFILES
from redrive.core.settings import (
    FINISHED_IN_MEMORY,
    FinishedSettings,
    OfficeSettings,
    RetentionSettings,
    WorkerSettings,
)

CODE = "code"
FILE = "redrive.toml"
CONFIG_VARIABLE = "REDRIVE_CONFIG"
ARCHIVE_FOLDER = "archive"
_FILE = "sqlite:///"
_SERVICE = re.compile(
    r"REDRIVE_(?:[A-Z0-9]+_)*"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_log = logging.getLogger("redrive.config")


def load(
    flags: Mapping[str, object] | None = None,
    *,
    code: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings of this process, or ConfigurationError.

    Flags are named by their key: `store`, `worker.lease_s`, `queues.NAME.rate`, and `config` for the
    file; None is a flag that was not given. `code` is what the program itself names, the weakest of all.
    Relative paths start at `folder`, or the working folder.
    """
    environ = os.environ if environ is None else environ
    variables = {name: text for name, text in environ.items() if name.startswith("REDRIVE_") and text}
    switches = {name: value for name, value in (flags or {}).items() if value is not None}
    folder = folder or Path()
    file = _from_file(switches.pop("config", None), variables.pop(CONFIG_VARIABLE, None), folder)
    own = _from_code(code or {})
    sources = chain(own, file, _from_environment(variables), _from_flags(switches))
    caches = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    settings = _assemble({given.key: given for given in map(check, sources)}, folder, caches)
    return replace(settings, code=MappingProxyType(dict(code or {})))


def tell_overruled(settings: Settings) -> None:
    """Say, once a process, where another source overrules what the program itself names."""
    for key, named in settings.code.items():
        placed = _place(named, settings.data) if key == "store" else named
        if placed != getattr(settings, key):
            _warn_of(key, str(settings.values()[key]), settings.origins[key], mask_url(named))


@cache
def _warn_of(key: str, value: str, origin: str, named: str) -> None:
    _log.warning("%s is %s, from %s, and not %s, which the code names", key, value, origin, named)


def _from_code(code: Mapping[str, str]) -> Iterator[Given]:
    for name, value in code.items():
        yield Given("", name, value, CODE)


def _from_file(flag: object, variable: str | None, folder: Path) -> Iterator[Given]:
    named = variable if flag is None else str(flag)
    document = _read(folder / Path(named or FILE).expanduser(), named or FILE)
    if document is None and named:
        source = CONFIG_VARIABLE if flag is None else "flag config"
        raise ConfigurationError(f"{source} names {named}, which does not exist: write the file, or unset it")
    return _from_document(document or {}, named or FILE)


def _read(path: Path, origin: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{origin} is not TOML: {error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{origin} is not UTF-8 text: save it as such") from None
    except OSError as error:
        raise ConfigurationError(f"{origin} cannot be read: {error.strerror}") from error


def _from_document(document: Mapping[str, object], origin: str) -> Iterator[Given]:
    for key, value in document.items():
        if key in NAMED:
            for name, table in _table(key, value, origin).items():
                yield from _from_table(f"{key}.{name}", table, origin)
        elif key in SECTIONS:
            yield from _from_table(key, value, origin)
        else:
            yield Given("", key, value, origin)


def _from_table(section: str, value: object, origin: str) -> Iterator[Given]:
    for name, inner in _table(section, value, origin).items():
        yield Given(section, name, inner, origin)


def _table(section: str, value: object, origin: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"{section} from {origin} is a section: write [{section}], its keys below it"
        )
    return value


def _from_environment(variables: Mapping[str, str]) -> Iterator[Given]:
    for variable, text in sorted(variables.items()):
        if variable in VARIABLES:
            yield Given(*VARIABLES[variable], text, variable, text=True)
        elif not _of_a_service(variable, text):
            _warn_once(variable)


def _of_a_service(variable: str, text: str) -> bool:
    """Whether Kubernetes set it, for a Service whose name begins with `redrive`."""
    return _SERVICE.fullmatch(variable) is not None or (variable.endswith("_PORT") and "://" in text)


@cache
def _warn_once(variable: str) -> None:
    advice = nearest(variable, [*VARIABLES, CONFIG_VARIABLE])
    _log.warning("%s in the environment is not a setting and is ignored: %s", variable, advice)


def _from_flags(switches: Mapping[str, object]) -> Iterator[Given]:
    for key, value in switches.items():
        section, _, name = key.rpartition(".")
        plain = str(value) if isinstance(value, Path) else value
        yield Given(section, name, plain, "flag", text=isinstance(plain, str))


def _assemble(given: Mapping[str, Given], folder: Path, caches: Path) -> Settings:
    top = {name: str(given[name].value) for name in NAMES[""] if name in given}
    profile = top.get("profile", DEFAULT_PROFILE)
    data = folder / Path(top.get("data", "")).expanduser()
    origins = _origins(given, profile)
    store = _place(top.get("store", DEFAULT_STORE), data)
    settings = Settings(
        store=store,
        data=data,
        profile=profile,
        mail=top.get("mail", DEFAULT_MAIL),
        mail_rules=folder / Path(top["mail_rules"]).expanduser() if "mail_rules" in top else None,
        listen=top.get("listen", DEFAULT_LISTEN),
        queues=MappingProxyType(_queues(given)),
        senders=MappingProxyType(_senders(given)),
        origins=MappingProxyType(origins),
        **_parts(given, store, profile, data, caches),
    )
    for name in settings.queues:
        settings.policy(name)
        settings.queue(name)
        settings.automatic_s(name)
    return settings


def _parts(given: Mapping[str, Given], store: str, profile: str, data: Path, caches: Path) -> dict[str, Any]:
    """Every section: its defaults, some of which follow from the store, with what was set on top."""
    starts: Mapping[str, Any] = {
        "retry": PROFILES[profile],
        "finished": _finished(store),
        "retention": _retention(store),
        "office": _office(store, caches),
    }
    below = {name: f"{name} from profile {profile}" for name in NAMES["retry"]}
    parts = {}
    for section, kind in SECTIONS.items():
        layer = [one for one in given.values() if one.section == section]
        parts[section] = overlay(starts.get(section, kind()), layer, below if section == "retry" else {})
    parts["retention"] = _below(parts["retention"], data)
    parts["finished"] = _remembering(parts["finished"], parts["worker"])
    return parts


def _origins(given: Mapping[str, Given], profile: str) -> dict[str, str]:
    defaults = dict.fromkeys(NAMES[""], "default")
    for section in SECTIONS:
        origin = f"profile {profile}" if section == "retry" else "default"
        defaults |= {f"{section}.{name}": origin for name in NAMES[section]}
    return defaults | {one.key: one.origin for one in given.values()}


def _queues(given: Mapping[str, Given]) -> dict[str, tuple[Given, ...]]:
    queues: dict[str, tuple[Given, ...]] = {}
    for one in given.values():
        head, _, name = one.section.partition(".")
        if head == "queues":
            queues[name] = (*queues.get(name, ()), one)
    return queues


def _senders(given: Mapping[str, Given]) -> dict[str, SenderDomains]:
    return {
        one.section.partition(".")[2]: one.value
        for one in given.values()
        if isinstance(one.value, SenderDomains)
    }


def _finished(store: str) -> FinishedSettings:
    """What is finished is kept for less where it is kept in memory."""
    return FINISHED_IN_MEMORY if store.startswith(("redis:", "rediss:")) else FinishedSettings()


def _remembering(finished: FinishedSettings, worker: WorkerSettings) -> FinishedSettings:
    """A worker that died is followed by another after its lease, which may submit the same again."""
    return replace(finished, remember_s=max(finished.remember_s, 2 * worker.lease_s))


def _office(store: str, caches: Path) -> OfficeSettings:
    """A SQLite file is its own index; what another store's index holds can be made again at any time."""
    return OfficeSettings(index=None if store_file(store) else str(caches / "redrive" / "index"))


def _retention(store: str) -> RetentionSettings:
    """Dead letters leave for a folder beside a SQLite file; a shared store has none until one is named."""
    file = store_file(store)
    return RetentionSettings(folder=None if file is None else str(file.absolute().with_name(ARCHIVE_FOLDER)))


def _below(settings: RetentionSettings, data: Path) -> RetentionSettings:
    """A relative folder lies in the data folder."""
    if settings.folder is None:
        return settings
    return replace(settings, folder=str(data / Path(settings.folder).expanduser()))


def _place(store: str, data: Path) -> str:
    """A relative SQLite file lies in the data folder; `sqlite:////` begins an absolute path."""
    file = store_file(store)
    return store if file is None else f"{_FILE}{data / file}"


def store_file(store: str) -> Path | None:
    """The file that a store's URL names; None for a server. Nothing else here knows kinds of store."""
    file = store.removeprefix(_FILE)
    return None if file == store or not file else Path(file)
