"""Configuration: what wins, what is refused, and that every refusal names the key and its origin."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from redrive.config import LogFormat, LogLevel, Settings, load, mask_url, tell_overruled
from redrive.config.keys import NAMES, SECTIONS, VARIABLES
from redrive.core.errors import ConfigurationError
from redrive.core.retry import PROFILES, Backoff, RetryPolicy
from redrive.core.settings import QueueSettings


def configured(
    folder: Path,
    toml: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    (folder / "redrive.toml").write_text(toml, "utf-8")
    return load(flags, environ=environ or {}, folder=folder)


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
    tell_overruled(settings)
    tell_overruled(settings)
    assert caplog.messages == [
        "store is redis://user:***@there.example/0, from REDRIVE_STORE, "
        "and not redis://user:***@code.example/0, which the code names"
    ]


def test_the_same_store_written_twice_overrules_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"REDRIVE_STORE": f"sqlite:///{tmp_path}/redrive.db"}
    tell_overruled(load(code={"store": "sqlite:///redrive.db"}, environ=environ, folder=tmp_path))
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


QUEUE = '[retry]\nattempts = 7\njitter = 0.1\n[queues."q.mail:send"]\nattempts = 9\nrate = "5/s"\n'


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


def test_a_section_that_contradicts_the_handler_names_both(tmp_path: Path) -> None:
    settings = configured(tmp_path, "[queues.orders]\ncap_s = 60")
    with pytest.raises(ConfigurationError) as caught:
        settings.policy("orders", RetryPolicy(base_s=100, cap_s=100))
    assert "queues.orders.cap_s from redrive.toml" in str(caught.value)
    assert "base_s chosen by the handler" in str(caught.value)


IN_FILE = [
    ("stor = 'x'", ["stor ", "did you mean store?"]),
    ("[wroker]\nlease_s = 1", ["wroker", "did you mean worker?"]),
    ("[worker]\nlease = 1", ["worker.lease", "did you mean lease_s?"]),
    ("[queues.a]\nratee = '1/s'", ["queues.a.ratee", "did you mean rate?"]),
    ("[tenants.acme]\nfrom = 'acme.example'", ["tenants.acme.from", '["acme.example"]']),
    ("[tenants.acme]\nfrom = []", ["tenants.acme.from", "a list of domains"]),
    ("[tenants.acme]\nfrom = ['a b']", ["tenants.acme.from from redrive.toml", "is not a domain"]),
    ("[tenants.acme]\nform = ['a.b']", ["tenants.acme.form", "did you mean from?"]),
    ("[tenants.'a b']\nfrom = ['a.b']", ["'a b'", "is not a name"]),
    ("[tenants.a.b]\nfrom = ['a.b']", ["tenants.a.b", '[tenants."a.b"]']),
    ("[queues.a.b]\nrate = '1/s'", ["queues.a.b", '[queues."a.b"]']),
    ("worker = 3", ["worker", "[worker]"]),
    ("[queues]\na = 3", ["queues.a", "[queues.a]"]),
    ("store = 3", ["store", "a text"]),
    ("profile = 'prod'", ["profile", "'prod'", "production, development, mta"]),
    ("[worker]\nlease_s = '30'", ["worker.lease_s", "a number"]),
    ("[worker]\nbatch = 1.5", ["worker.batch", "a whole number"]),
    ("[worker]\nbatch = true", ["worker.batch", "a whole number"]),
    ("[worker]\nlease_s = nan", ["worker.lease_s", "finite"]),
    ("[worker]\nlease_s = inf", ["worker.lease_s", "finite"]),
    ("[retry]\nttl_s = 1e300", ["retry.ttl_s", "100 years"]),
    ("[worker]\nlease_s = 0", ["worker.lease_s", "more than 0"]),
    ("[finished]\nkeep = -1", ["finished.keep", "0 or more"]),
    ("[retention]\nkeep = 0", ["retention.keep", "more than 0"]),
    ("[submit]\nbody_bytes = 0", ["submit.body_bytes", "more than 0"]),
    ("[logs]\nlevel = 'loud'", ["logs.level", "debug or info"]),
    ("[retry]\nattempts = 0", ["retry.attempts", "at least 1"]),
    ("[retry]\nattempts = 'many'", ["retry.attempts", "a whole number or none"]),
    ("[retry]\nbackoff = 'cubic'", ["retry.backoff", "exponential or linear or fixed"]),
    ("[retry]\njitter = 1", ["retry.jitter"]),
    ("[retry]\nbase_s = 100", ["retry.base_s", "cap_s from profile production"]),
    ("[retry]\nbase_s = 9\ncap_s = 8", ["retry.base_s", "retry.cap_s"]),
    ("[queues.a]\nattempts = 0", ["queues.a.attempts"]),
    ("[queues.a]\nbase_s = 100", ["queues.a.base_s", "cap_s from profile production"]),
    ("[retry]\nbase_s = 9\n[queues.a]\ncap_s = 8", ["queues.a.cap_s", "base_s from redrive.toml"]),
    ("[queues.a]\nrate = 'fast'", ["queues.a.rate", "100/min"]),
    ("[queues.a]\nrate = '0/s'", ["queues.a.rate"]),
    ("[queues.a]\nconcurrency = 0", ["queues.a.concurrency"]),
    ("[queues.'a b']\nrate = '1/s'", ["'a b'", "is not a name"]),
    ("[worker]\nbatch = 1\nbatch = 2\n", ["line 3"]),
    ("store = \n", ["is not TOML", "line 1"]),
]


@pytest.mark.parametrize(("toml", "said"), IN_FILE)
def test_a_mistake_in_the_file_names_key_and_file(tmp_path: Path, toml: str, said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, toml)
    for part in [*said, "redrive.toml"]:
        assert part in str(caught.value)


IN_ENVIRONMENT = [
    ("REDRIVE_PROFILE", "prod", ["profile", "mta"]),
    ("REDRIVE_RETRY_ATTEMPTS", "0", ["retry.attempts", "at least 1"]),
    ("REDRIVE_RETRY_ATTEMPTS", "2.5", ["retry.attempts", "a whole number or none"]),
    ("REDRIVE_WORKER_LEASE_S", "nan", ["worker.lease_s", "finite"]),
    ("REDRIVE_WORKER_LEASE_S", "ten", ["worker.lease_s", "a number"]),
    ("REDRIVE_RETRY_CAP_S", "0.5", ["retry.cap_s", "base_s from profile production"]),
    ("REDRIVE_CONFIG", "gone.toml", ["gone.toml", "does not exist"]),
]


@pytest.mark.parametrize(("variable", "text", "said"), IN_ENVIRONMENT)
def test_a_mistake_in_the_environment_names_the_variable(
    tmp_path: Path, variable: str, text: str, said: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, environ={variable: text})
    for part in [*said, variable]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"worker.lease_s": -1}, ["worker.lease_s from flag"]),
        ({"wroker.lease_s": 1}, ["wroker.lease_s from flag", "did you mean worker?"]),
        ({"queues.a b.rate": "1/s"}, ["from flag", "'a b'"]),
        ({"config": "gone.toml"}, ["flag config", "gone.toml"]),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(
    tmp_path: Path, flags: Mapping[str, object], said: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, flags=flags)
    for part in said:
        assert part in str(caught.value)


def test_a_pair_from_two_places_names_both(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, "[retry]\nbase_s = 10", {"REDRIVE_RETRY_CAP_S": "5"})
    assert "retry.base_s from redrive.toml" in str(caught.value)
    assert "retry.cap_s from REDRIVE_RETRY_CAP_S" in str(caught.value)


def test_an_overridden_mistake_is_still_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"profile from redrive\.toml"):
        configured(tmp_path, "profile = 'prod'", {"REDRIVE_PROFILE": "mta"})


def test_a_file_that_is_not_text_or_not_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, why in (("bytes.toml", "UTF-8"), (".", "cannot be read")):
        with pytest.raises(ConfigurationError, match=why) as caught:
            load(environ={"REDRIVE_CONFIG": name}, folder=tmp_path)
        assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("redis://user:sec@ret@host/0", "redis://user:***@host/0"),
        ("postgresql://user@host/db?password=secret&x=1", "postgresql://user@host/db?password=***&x=1"),
        ("sqs://host?aws_secret_access_key=secret", "sqs://host?aws_secret_access_key=***"),
        ("sqlite:///redrive.db", "sqlite:///redrive.db"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_masked_url_shows_no_secret(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_neither_values_nor_errors_show_a_password(tmp_path: Path) -> None:
    settings = configured(tmp_path, 'store = "redis://:secret@host/0"')
    assert "secret" not in str(settings.values())
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, 'profile = "redis://:secret@host/0"')
    assert "secret" not in str(caught.value)


def test_every_value_has_an_origin_and_every_key_a_variable(tmp_path: Path) -> None:
    settings = configured(tmp_path, QUEUE)
    assert settings.values().keys() == settings.origins.keys()
    assert len(VARIABLES) == sum(map(len, NAMES.values()))


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


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("REDRIVE_STOER", "did you mean REDRIVE_STORE?"),
        ("REDRIVE_WORKER_LEASE", "did you mean REDRIVE_WORKER_LEASE_S?"),
        ("REDRIVE_QUEUES_A_RATE", "is not a setting"),
        ("REDRIVE_HTTP_PORT", "is not a setting"),
    ],
)
def test_an_unknown_variable_is_ignored_with_one_warning_and_the_nearest_name(
    tmp_path: Path, variable: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        configured(tmp_path, environ={variable: "8025"})
    (line,) = [record.getMessage() for record in caplog.records]
    assert variable in line
    assert said in line


def test_what_kubernetes_sets_for_a_service_named_redrive_is_none_of_our_business(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = {
        "REDRIVE_SERVICE_HOST": "127.0.0.1",
        "REDRIVE_SERVICE_PORT": "8025",
        "REDRIVE_SERVICE_PORT_HTTP": "8025",
        "REDRIVE_PORT": "tcp://127.0.0.1:8025",
        "REDRIVE_PORT_8025_TCP": "tcp://127.0.0.1:8025",
        "REDRIVE_PORT_8025_TCP_PROTO": "tcp",
        "REDRIVE_PORT_8025_TCP_PORT": "8025",
        "REDRIVE_PORT_8025_TCP_ADDR": "127.0.0.1",
        "REDRIVE_WEB_SERVICE_HOST": "127.0.0.1",
        "REDRIVE_WEB_PORT": "tcp://127.0.0.1:8025",
    }
    assert configured(tmp_path, environ=service) == configured(tmp_path)
    assert caplog.records == []


def test_every_key_of_every_section_takes_effect(tmp_path: Path) -> None:
    plain = load(environ={}, folder=tmp_path)
    for section in SECTIONS:
        for name in NAMES[section]:
            value = _another(getattr(getattr(plain, section), name), NAMES[section][name])
            changed = load({f"{section}.{name}": value}, environ={}, folder=tmp_path)
            assert getattr(getattr(changed, section), name) != getattr(getattr(plain, section), name), name


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
