"""The example event_sourcing: its page, with the read model in PostgreSQL, and its functions."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from examples.event_sourcing.app import NOTHING, app, apply, decide
from tests.connect.postgres.server import Database
from tests.examples.loading import ROOT
from tests.examples.test_readmes import blocks

from millstream import TestDriver


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path, database: Database) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
    url = f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}"
    environment |= {"MILLSTREAM_DATA": str(tmp_path), "BANK_DATABASE": url}
    shown = iter(blocks("event_sourcing", "text")[1:])  # the first one is a picture
    balances = []
    for commands in blocks("event_sourcing", "sh"):
        for command in commands.splitlines():
            program, *arguments = shlex.split(command)
            here = Path(sys.executable).with_name(Path(program).name)
            done = subprocess.run(
                [here, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env=environment
            )
            assert done.returncode == 0, done.stderr
        assert re.fullmatch(re.escape(next(shown)).replace("…", ".*"), done.stdout.strip()), done.stdout
        if "balances.py" in commands:
            balances.append(database.execute("select account, balance, events from balances order by account"))
    assert balances == [[("ann", 70, 4), ("ben", 0, 1)], [("ann", -20, 5), ("ben", 0, 1)]]


def test_a_command_is_decided_by_the_state_that_the_events_make() -> None:
    account = apply(apply(NOTHING, {"kind": "opened"}), {"kind": "deposited", "amount": 10})
    assert decide(account, {"kind": "withdraw", "amount": 10}) == {"kind": "withdrawn", "amount": 10}
    assert decide(account, {"kind": "withdraw", "amount": 11})["reason"] == "the balance is 10"
    assert decide(account, {"kind": "open"})["reason"] == "it is open"
    assert decide(NOTHING, {"kind": "withdraw", "amount": 1})["reason"] == "there is no such account"
    for command in ({"kind": "deposit", "amount": -1}, {"kind": "steal"}):
        assert decide(account, command)["reason"] == "it is not a command"


def test_two_commands_are_decided_one_after_the_other() -> None:
    with TestDriver(app) as driver:
        commands = driver.input("bank-commands")
        for command in ({"kind": "open"}, {"kind": "deposit", "amount": 10}, *[{"kind": "withdraw", "amount": 6}] * 2):
            commands.pipe("ann", command)
        events = driver.output("bank-events").read_values()
    assert [event["kind"] for event in events] == ["opened", "deposited", "withdrawn", "refused"]
    assert [event["number"] for event in events] == [1, 2, 3, 4]
