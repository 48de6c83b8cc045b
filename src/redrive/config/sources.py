"""Where settings come from: the code, the file, the environment, the flags; later ones win.

The only reader of REDRIVE_* variables. An empty variable is one that is not set. A value that a later source
overrides is still checked: a mistake does not wait for the day the override goes.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from redrive.config.keys import (
    NAMED,
    NAMES,
    SECTIONS,
    SENTRY_VARIABLE,
    VARIABLES,
    Given,
    check,
    is_hidden,
    mask_url,
    nearest,
)
from redrive.config.settings import (
    DEFAULT_LISTEN,
    DEFAULT_MAIL,
    DEFAULT_PROFILE,
    DEFAULT_STORE,
    Settings,
    StoreDefaults,
    overlay,
)
from redrive.core.alert_rules import DEFAULT_RULES, AlertSettings, ChannelSettings, make_rule
from redrive.core.alerts import AlertRule
from redrive.core.errors import ConfigurationError
from redrive.core.grants import SenderDomains
from redrive.core.retry import PROFILES, RetryPolicy
from redrive.core.settings import (
    BrokerSettings,
    FinishedSettings,
    OfficeSettings,
    RetentionSettings,
    WorkerSettings,
)

CODE = "code"
FILE = "redrive.toml"
CONFIG_VARIABLE = "REDRIVE_CONFIG"
ARCHIVE_FOLDER = "archive"
_SERVICE = re.compile(
    r"REDRIVE_(?:[A-Z0-9]+_)*"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_log = logging.getLogger("redrive.config")

Stores = Callable[[str, Path], StoreDefaults]
"""What follows from a store's URL, where `data` is the folder of files; wiring knows the kinds of store."""


def load(
    flags: Mapping[str, object] | None = None,
    *,
    code: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stores: Stores,
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
    own = chain(_from_code(code or {}), _from_sentry(environ.get(SENTRY_VARIABLE)))
    sources = chain(own, file, _from_environment(variables), _from_flags(switches))
    caches = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    checked = (_looked_up(check(given), environ) for given in sources)
    settings = _assemble({given.key: given for given in checked}, folder, caches, stores)
    return replace(settings, code=MappingProxyType(dict(code or {})))


def warn_overruled(settings: Settings, stores: Stores) -> None:
    """Say, once a process, where another source overrules what the program itself names."""
    for key, named in settings.code.items():
        placed = stores(named, settings.data).url if key == "store" else named
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
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{origin} is not UTF-8 text: save it as such") from None
    except OSError as error:
        raise ConfigurationError(f"{origin} cannot be read: {error.strerror}") from error
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{origin} is not TOML: {error}") from None


def _from_document(document: Mapping[str, object], origin: str) -> Iterator[Given]:
    for key, value in document.items():
        if key in NAMED:
            for name, table in _table(key, value, origin).items():
                if table == {} and key != "queues":
                    raise ConfigurationError(
                        f"[{key}.{name}] from {origin} is empty: write its keys below it"
                    )
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


def _from_sentry(dsn: str | None) -> Iterator[Given]:
    """Sentry's own variable is weaker than all of ours."""
    if dsn:
        yield Given("sentry", "dsn", dsn, SENTRY_VARIABLE, text=True)


def _of_a_service(variable: str, text: str) -> bool:
    """Whether Kubernetes set it, for a Service whose name begins with `redrive`."""
    return _SERVICE.fullmatch(variable) is not None or (variable.endswith("_PORT") and "://" in text)


@cache
def _warn_once(variable: str) -> None:
    advice = nearest(variable, [*VARIABLES, CONFIG_VARIABLE])
    _log.warning("%s in the environment is not a setting and is ignored: %s", variable, advice)


def _looked_up(given: Given, environ: Mapping[str, str]) -> Given:
    """A secret that is written as `$NAME` stands in the environment."""
    if not (is_hidden(given) and isinstance(given.value, str) and given.value.startswith("$")):
        return given
    name = given.value[1:]
    if not environ.get(name):
        raise ConfigurationError(f"{given.key} from {given.origin} is ${name}, which is not set: set it")
    return replace(given, value=environ[name])


def _from_flags(switches: Mapping[str, object]) -> Iterator[Given]:
    for key, value in switches.items():
        section, _, name = key.rpartition(".")
        plain = str(value) if isinstance(value, Path) else value
        yield Given(section, name, plain, "flag", text=isinstance(plain, str))


def _assemble(given: Mapping[str, Given], folder: Path, caches: Path, stores: Stores) -> Settings:
    top = {name: str(given[name].value) for name in NAMES[""] if name in given}
    profile = top.get("profile", DEFAULT_PROFILE)
    data = folder / Path(top.get("data", "")).expanduser()
    origins = _origins(given, profile)
    store = _with_ledger(stores(top.get("store", DEFAULT_STORE), data), given, data, stores)
    settings = Settings(
        store=store.url,
        data=data,
        profile=profile,
        mail=top.get("mail", DEFAULT_MAIL),
        mail_rules=folder / Path(top["mail_rules"]).expanduser() if "mail_rules" in top else None,
        listen=top.get("listen", DEFAULT_LISTEN),
        queues=MappingProxyType(_queues(given)),
        senders=MappingProxyType(_senders(given)),
        alerts=_alerts(given),
        named=MappingProxyType(_named(given)),
        origins=MappingProxyType(origins),
        **_parts(given, store, profile, data, caches),
    )
    for name in settings.queues:
        settings.policy(name)
        settings.queue(name)
        settings.automatic_s(name)
    return settings


def _with_ledger(
    store: StoreDefaults, given: Mapping[str, Given], data: Path, stores: Stores
) -> StoreDefaults:
    """What a broker does not keep follows from the ledger beside it."""
    if not store.broker:
        return store
    named = given.get("broker.ledger")
    ledger = stores(BrokerSettings().ledger if named is None else str(named.value), data)
    if ledger.broker:
        raise ConfigurationError(
            "broker.ledger is a broker itself: name a store, such as sqlite:///redrive.db"
        )
    return replace(ledger, url=store.url, broker=True, attempts=store.attempts)


def _parts(
    given: Mapping[str, Given], store: StoreDefaults, profile: str, data: Path, caches: Path
) -> dict[str, Any]:
    """Every section: its defaults, some of which follow from the store, with what was set on top."""
    starts: Mapping[str, Any] = {
        "retry": _profile(profile, store),
        "finished": store.finished,
        "retention": _retention(store.file),
        "office": _office(store.file, caches),
    }
    below = {name: f"{name} from profile {profile}" for name in NAMES["retry"]}
    parts = {}
    for section, kind in SECTIONS.items():
        layer = [one for one in given.values() if one.section == section]
        parts[section] = overlay(starts.get(section, kind()), layer, below if section == "retry" else {})
    parts["broker"] = _placed(parts["broker"], data)
    parts["retention"] = _below(parts["retention"], data)
    parts["finished"] = _remembering(parts["finished"], parts["worker"])
    return parts


def _profile(profile: str, store: StoreDefaults) -> RetryPolicy:
    policy = PROFILES[profile]
    return policy if store.attempts is None else replace(policy, attempts=store.attempts)


def _placed(broker: BrokerSettings, data: Path) -> BrokerSettings:
    """A relative file of the topology lies in the data folder."""
    if broker.topology is None:
        return broker
    return replace(broker, topology=str(data / Path(broker.topology).expanduser()))


def _origins(given: Mapping[str, Given], profile: str) -> dict[str, str]:
    defaults = dict.fromkeys(NAMES[""], "default")
    for section in SECTIONS:
        origin = f"profile {profile}" if section == "retry" else "default"
        defaults |= {f"{section}.{name}": origin for name in NAMES[section]}
    return defaults | {one.key: one.origin for one in given.values()}


def _queues(given: Mapping[str, Given]) -> dict[str, tuple[Given, ...]]:
    return _sections(given, "queues")


def _sections(given: Mapping[str, Given], wanted: str) -> dict[str, tuple[Given, ...]]:
    """What was set in each section of a kind, by its name."""
    sections: dict[str, tuple[Given, ...]] = {}
    for one in given.values():
        head, _, name = one.section.partition(".")
        if head == wanted:
            sections[name] = (*sections.get(name, ()), one)
    return sections


def _alerts(given: Mapping[str, Given]) -> AlertSettings:
    own = {name: _alert_rule(name, layer) for name, layer in _sections(given, "alerts").items()}
    channels = {name: _channel(name, layer) for name, layer in _sections(given, "channels").items()}
    contacts = {
        name: one.value
        for name, layer in _sections(given, "tenants").items()
        for one in layer
        if one.name == "contacts" and isinstance(one.value, tuple)
    }
    rules = tuple({**DEFAULT_RULES, **own}.values())
    try:
        return AlertSettings(
            rules=rules, channels=MappingProxyType(channels), contacts=MappingProxyType(contacts)
        )
    except ConfigurationError as error:
        key, _, problem = str(error).partition(": ")
        raise ConfigurationError(f"{key} from {given[key].origin}: {problem}") from None


def _alert_rule(name: str, layer: tuple[Given, ...]) -> AlertRule:
    try:
        return make_rule(name, {one.name: one.value for one in layer})
    except ConfigurationError as error:
        raise ConfigurationError(f"[alerts.{name}] from {layer[0].origin}: {error}") from None


def _channel(name: str, layer: tuple[Given, ...]) -> ChannelSettings:
    channel = overlay(ChannelSettings(), layer, {})
    if "://" not in channel.url:
        raise ConfigurationError(
            f"[channels.{name}] from {layer[0].origin} has no url: write one such as https://…, slack://…, "
            "pagerduty://… or mailto://…"
        )
    return channel


def _named(given: Mapping[str, Given]) -> dict[str, object]:
    """What is shown of the sections that have many keys of their own; of a channel's address, what it is."""
    shown: dict[str, object] = {}
    for one in given.values():
        if one.section.startswith(("alerts.", "channels.")) or one.name == "contacts":
            scheme = f"{str(one.value).partition('://')[0]}://" if one.name == "url" else ""
            value = list(one.value) if isinstance(one.value, tuple) else one.value
            shown[one.key] = f"{scheme}***" if is_hidden(one) else value
    return shown


def _senders(given: Mapping[str, Given]) -> dict[str, SenderDomains]:
    return {
        one.section.partition(".")[2]: one.value
        for one in given.values()
        if isinstance(one.value, SenderDomains)
    }


def _remembering(finished: FinishedSettings, worker: WorkerSettings) -> FinishedSettings:
    """A worker that died is followed by another after its lease, which may submit the same again."""
    return replace(finished, remember_s=max(finished.remember_s, 2 * worker.lease_s))


def _office(file: Path | None, caches: Path) -> OfficeSettings:
    """A store in a file is its own index; what a server's index holds can be made again at any time."""
    return OfficeSettings(index=None if file is not None else str(caches / "redrive" / "index"))


def _retention(file: Path | None) -> RetentionSettings:
    """Dead letters leave for a folder beside the store's file; a server has none until one is named."""
    return RetentionSettings(folder=None if file is None else str(file.absolute().with_name(ARCHIVE_FOLDER)))


def _below(settings: RetentionSettings, data: Path) -> RetentionSettings:
    """A relative folder lies in the data folder."""
    if settings.folder is None:
        return settings
    return replace(settings, folder=str(data / Path(settings.folder).expanduser()))
