"""What wins: flags, the environment, the file, the code, the defaults; and that every key takes effect."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from redrive import wiring
from redrive.config import LogFormat, LogLevel, Settings, StoreDefaults, warn_overruled
from redrive.config.keys import NAMES, SECTIONS
from redrive.core.errors import ConfigurationError
from redrive.core.retry import PROFILES, Backoff, RetryPolicy
from redrive.core.settings import FinishedSettings, QueueSettings
from redrive.core.store import Store
from redrive.stores.sqlite import SqliteStore
from redrive.wiring import StoreKind, load, make_store, store_defaults, store_file
from tests.config.configured import QUEUE, configured


def test_without_any_source_the_defaults_of_core_hold(tmp_path: Path) -> None:
    settings = load(environ={}, folder=tmp_path)
    assert settings.retry == PROFILES["production"]
    assert settings.queue("orders") == QueueSettings()
    assert settings.store == f"sqlite:///{tmp_path}/redrive.db"
    assert settings.origins["worker.lease_s"] == "default"
    assert settings.origins["retry.attempts"] == "profile production"


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    settings = configured(
        tmp_path,
        "[worker]\nlease_s = 11\npoll_s = 12\ndrain_s = 13",
        {"REDRIVE_WORKER_POLL_S": "22", "REDRIVE_WORKER_DRAIN_S": "23"},
        {"worker.drain_s": 33, "worker.batch": None},
    )
    assert (settings.worker.lease_s, settings.worker.poll_s, settings.worker.drain_s) == (11, 22, 33)
    origins = [settings.origins[f"worker.{name}"] for name in ("lease_s", "poll_s", "drain_s", "batch")]
    assert origins == ["redrive.toml", "REDRIVE_WORKER_POLL_S", "flag", "default"]


def test_what_the_code_names_is_a_default_that_every_other_source_overrules(tmp_path: Path) -> None:
    code = {"store": "sqlite:///code.db", "profile": "mta"}
    (tmp_path / "redrive.toml").write_text('store = "sqlite:///file.db"')
    variable = {"REDRIVE_STORE": "sqlite:///variable.db"}
    flag = {"store": "sqlite:///flag.db"}

    def store(flags: Mapping[str, object] | None, environ: Mapping[str, str], folder: Path) -> str:
        return load(flags, code=code, environ=environ, folder=folder).store.rpartition("/")[2]

    assert store(None, {}, tmp_path / "nowhere") == "code.db"
    assert store(None, {}, tmp_path) == "file.db"
    assert store(None, variable, tmp_path) == "variable.db"
    assert store(flag, variable, tmp_path) == "flag.db"
    settings = load(code=code, environ={"REDRIVE_PROFILE": "development"}, folder=tmp_path)
    assert settings.retry == PROFILES["development"]
    assert load(code=code, environ={}, folder=tmp_path).retry == PROFILES["mta"]


def test_where_another_source_overrules_the_code_it_is_told_once_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = {"store": "redis://user:hidden@code.example/0", "profile": "mta"}
    environ = {"REDRIVE_STORE": "redis://user:secret@there.example/0", "REDRIVE_PROFILE": "mta"}
    settings = load(code=code, environ=environ, folder=tmp_path)
    warn_overruled(settings, store_defaults)
    warn_overruled(settings, store_defaults)
    assert caplog.messages == [
        "store is redis://user:***@there.example/0, from REDRIVE_STORE, "
        "and not redis://user:***@code.example/0, which the code names"
    ]


def test_the_same_store_written_twice_overrules_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"REDRIVE_STORE": f"sqlite:///{tmp_path}/redrive.db"}
    settings = load(code={"store": "sqlite:///redrive.db"}, environ=environ, folder=tmp_path)
    warn_overruled(settings, store_defaults)
    assert caplog.messages == []


def test_the_environment_is_text_and_none_is_a_word(tmp_path: Path) -> None:
    environ = {
        "REDRIVE_RETRY_ATTEMPTS": "none",
        "REDRIVE_RETRY_BACKOFF": "LINEAR",
        "REDRIVE_LOGS_LEVEL": "Debug",
        "REDRIVE_LOGS_FORMAT": "json",
        "REDRIVE_FINISHED_KEEP": "0",
        "REDRIVE_STORE": "",
        "PATH": "/bin",
    }
    settings = configured(tmp_path, environ=environ)
    assert settings.retry.attempts is None
    assert settings.retry.backoff is Backoff.LINEAR
    assert (settings.logs.level, settings.logs.format) == (LogLevel.DEBUG, LogFormat.JSON)
    assert settings.finished.keep == 0
    assert settings.origins["store"] == "default"


def test_another_file_is_named_by_the_environment_or_by_a_flag(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('profile = "mta"')
    (tmp_path / "two.toml").write_text('profile = "development"')
    environ = {"REDRIVE_CONFIG": "one.toml"}
    assert configured(tmp_path, "broken", environ).retry == PROFILES["mta"]
    settings = configured(tmp_path, "broken", environ, {"config": tmp_path / "two.toml"})
    assert settings.retry == PROFILES["development"]
    assert settings.origins["profile"] == str(tmp_path / "two.toml")


@pytest.mark.parametrize(
    ("store", "placed"),
    [
        ("sqlite:///a/b.db", "sqlite:////srv/a/b.db"),
        ("sqlite:////elsewhere/b.db", "sqlite:////elsewhere/b.db"),
        ("redis://localhost/0", "redis://localhost/0"),
        ("sqlite:///", "sqlite:///"),
    ],
)
def test_a_relative_sqlite_file_lies_in_the_data_folder(tmp_path: Path, store: str, placed: str) -> None:
    settings = configured(tmp_path, f'store = "{store}"', {"REDRIVE_DATA": "/srv"})
    assert settings.store == placed


def test_a_queue_takes_profile_then_retry_then_its_own_section(tmp_path: Path) -> None:
    settings = configured(tmp_path, QUEUE, {"REDRIVE_PROFILE": "development"})
    assert settings.policy("orders") == RetryPolicy(attempts=7, base_s=0.5, cap_s=30, jitter=0.1)
    assert settings.policy("q.mail:send") == RetryPolicy(attempts=9, base_s=0.5, cap_s=30, jitter=0.1)
    assert settings.queue("q.mail:send").rate == "5/s"
    assert settings.origins["queues.q.mail:send.rate"] == "redrive.toml"


def test_the_handlers_choice_stands_between_retry_and_the_queues_section(tmp_path: Path) -> None:
    settings = configured(tmp_path, QUEUE)
    chosen = RetryPolicy(attempts=2, cap_s=5)
    assert settings.policy("orders", chosen) == chosen
    assert settings.policy("q.mail:send", chosen) == RetryPolicy(attempts=9, cap_s=5)
    wide = QueueSettings(concurrency=50)
    assert settings.queue("q.mail:send", wide) == QueueSettings(concurrency=50, rate="5/s")


def test_a_queue_is_redriven_by_itself_as_its_own_section_says(tmp_path: Path) -> None:
    toml = (
        '[office]\nautomatic_s = 600\n[queues.orders]\nautomatic_s = 60\n[queues.mail]\nautomatic_s = "none"'
    )
    settings = configured(tmp_path, toml)
    assert [settings.automatic_s(queue) for queue in ("orders", "mail", "other")] == [60, None, 600]
    with pytest.raises(ConfigurationError, match=r"queues\.orders\.automatic_s from redrive\.toml"):
        configured(tmp_path, "[queues.orders]\nautomatic_s = 0")


def test_letters_leave_for_a_folder_beside_a_sqlite_file_and_a_shared_store_has_none(tmp_path: Path) -> None:
    beside = load({"data": "kept"}, environ={}, folder=tmp_path)
    assert beside.retention.folder == str(tmp_path / "kept" / "archive")
    assert load({"store": "redis://127.0.0.1/0"}, environ={}, folder=tmp_path).retention.folder is None
    named = {"store": "redis://127.0.0.1/0", "data": "kept", "retention.folder": "old"}
    assert load(named, environ={}, folder=tmp_path).retention.folder == str(tmp_path / "kept" / "old")
    none = load({"retention.folder": "none", "retention.keep_s": "none"}, environ={}, folder=tmp_path)
    assert (none.retention.folder, none.retention.keep_s, none.retention.keep) == (None, None, 10_000)


def test_on_redis_less_is_kept_of_what_is_finished(tmp_path: Path) -> None:
    on_redis = load({"store": "redis://127.0.0.1/0"}, environ={}, folder=tmp_path)
    assert (on_redis.finished.keep, on_redis.finished.dedupe_s) == (10_000, 3_600.0)
    chosen = load({"store": "redis://127.0.0.1/0", "finished.keep": 5}, environ={}, folder=tmp_path)
    assert (chosen.finished.keep, chosen.finished.dedupe_s) == (5, 3_600.0)
    assert load({}, environ={}, folder=tmp_path).finished.dedupe_s == 86_400.0


def test_every_key_of_every_section_takes_effect(tmp_path: Path) -> None:
    plain = load(environ={}, folder=tmp_path)
    for section in SECTIONS:
        for name in NAMES[section]:
            value = VALID.get((section, name)) or _another(
                getattr(getattr(plain, section), name), NAMES[section][name]
            )
            changed = load({f"{section}.{name}": value}, environ={}, folder=tmp_path)
            assert getattr(getattr(changed, section), name) != getattr(getattr(plain, section), name), name


VALID = {("sentry", "dsn"): "https://key@sentry.example/1"}
"""What has to be of a form."""


def _another(value: object, hint: object) -> object:
    """A valid value of a key that differs from its default."""
    match value:
        case bool():
            return not value
        case StrEnum():
            return next(one.value for one in type(value) if one is not value)
        case int() | float():
            return value / 2 if isinstance(value, float) else value + 1
        case None:
            return "7" if "str" in str(hint) else 7
        case _:
            return f"{value}else"


def test_a_kind_of_store_is_one_entry_of_wiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defaults(url: str, data: Path) -> StoreDefaults:
        return StoreDefaults(f"{url}?placed", data / "third.db", FinishedSettings(keep=7))

    def make(settings: Settings) -> Store:
        return SqliteStore(tmp_path / "third.db", finished=settings.finished)

    monkeypatch.setitem(wiring._KINDS, "third", StoreKind("third", make, defaults))
    settings = load({"store": "third://here"}, environ={}, folder=tmp_path)
    assert (settings.store, settings.finished.keep) == ("third://here?placed", 7)
    assert (settings.retention.folder, settings.office.index) == (str(tmp_path / "archive"), None)
    assert store_file(settings.store) == Path("third.db")
    assert isinstance(make_store(settings), SqliteStore)
