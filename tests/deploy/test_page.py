"""docs/deployment.md: the files it names are there, and the commands it shows are ours."""

from __future__ import annotations

import re
import shlex

from tests.deploy.files import ROOT, check_command

PAGE = (ROOT / "docs/deployment.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"\bdeploy/[\w./-]*[\w/]", PAGE)) - {"deploy/redrive-api", "deploy/.env"}
    assert {name for name in named if not (ROOT / name).exists()} == set()
    shipped = {f"deploy/{one.name}" for one in (ROOT / "deploy").iterdir() if not one.name.endswith("ignore")}
    assert {name for name in shipped if name not in PAGE} == set()


def test_commands_of_ours_in_its_blocks_and_sentences_exist() -> None:
    lines = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
    ran = [line.split("-- redrive ")[1] for line in lines if "-- redrive " in line]
    told = re.findall(r"`redrive ([a-z][^`]*)`", PAGE)
    commands = [shlex.split(one.replace("FILE", "x.db").replace(" N", " 2")) for one in (*ran, *told)]
    assert len(commands) >= 4
    for command in commands:
        check_command(command if command != ["dlq", "restore"] else [*command, "archive.ndjson"])
