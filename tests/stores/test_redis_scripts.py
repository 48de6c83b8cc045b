"""The rules that every Lua file keeps, read from the files themselves."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from redrive.stores.redis.scripts import load_script, parts_of
from redrive.stores.statements import load_lua


def _list_files(*folder: str) -> list[str]:
    found = files("redrive.stores").joinpath("lua", *folder).iterdir()
    return sorted("/".join((*folder, one.name.removesuffix(".lua"))) for one in found if one.is_file())


VERBS, PARTS = _list_files(), _list_files("parts")


@pytest.mark.parametrize(
    "verb",
    [
        "claim",
        "settle",
        "extend",
        "reclaim",
        "cleanup",
        "cancel",
        "remove",
        "put_record",
        "write_journal",
        "delete_queue",
        "forget_totals",
    ],
)
def test_what_drains_is_allowed_when_memory_is_full(verb: str) -> None:
    assert load_lua(verb).startswith("#!lua flags=allow-oom\n")


@pytest.mark.parametrize("verb", ["append", "bury", "redrive", "add_totals"])
def test_what_adds_is_refused_when_memory_is_full(verb: str) -> None:
    assert load_lua(verb).startswith("#!lua\n")


@pytest.mark.parametrize("name", VERBS + PARTS)
def test_no_script_unpacks_a_long_list_or_scans_the_keys(name: str) -> None:
    text = load_lua(name)
    unpacked = re.findall(r"(?<![.\w])unpack\(.*", text)
    assert not unpacked or name == "parts/root", "root.lua unpacks in batches for all others"
    assert "table.unpack" not in text
    assert not re.search(r"'(KEYS|SCAN|HGETALL|SMEMBERS|FLUSH\w+)'", text)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_states_its_contract_and_takes_its_keys_from_the_root(verb: str) -> None:
    text = load_lua(verb)
    assert re.search(rf"^-- {verb}: ", text, re.MULTILINE)
    assert "-- KEYS 1" in text
    assert "-- ARGV 1" in text
    assert "-- Returns" in text
    assert "KEYS[2]" not in text


@pytest.mark.parametrize("name", PARTS)
def test_every_shared_part_is_used_by_a_verb(name: str) -> None:
    assert any(name in parts_of(verb) for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_part_stands_once_and_behind_what_it_needs(verb: str) -> None:
    parts = parts_of(verb)
    assert len(set(parts)) == len(parts)
    for index, part in enumerate(parts):
        assert set(parts_of(part)) <= set(parts[:index])


@pytest.mark.parametrize("verb", VERBS)
def test_a_composed_script_has_its_shebang_first_and_once(verb: str) -> None:
    script = load_script(verb)
    assert script.text.startswith("#!lua")
    assert script.text.count("#!lua") == 1
    assert len(script.sha) == 40
