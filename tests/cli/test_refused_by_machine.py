"""What the machine refuses: a path that cannot be used is one line that says so, never a traceback."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop

TOO_LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("dlq", "list", "--data", TOO_LONG),
        ("status", "--store", f"sqlite:///{TOO_LONG}"),
        ("mailbox", "list", "--data", TOO_LONG),
        ("backup", TOO_LONG),
        ("dlq", "export", TOO_LONG, "--all"),
    ],
)
def test_a_path_that_cannot_be_used_is_named(shop: Shop, arguments: tuple[str, ...]) -> None:
    shop.bury()
    result = shop(*arguments)
    assert result.code in (1, 2, 5)
    assert result.out == ""
    assert "File name too long" in result.error
    assert "aaa" in result.error
    assert "check the path" in result.error


def test_with_json_it_is_a_document(shop: Shop) -> None:
    result = shop("dlq", "list", "--data", TOO_LONG, "--json")
    assert (result.code, result.out) == (1, "")
    assert '"exitCode": 1' in result.error


def test_a_working_folder_that_is_gone_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = shop.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = shop("dlq", "list")
    assert (result.code, result.out) == (1, "")
    assert "check the working folder" in result.error
