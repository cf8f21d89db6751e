"""Commands that load an application, or change the state of one that has run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import SHOP, Inside, Run, make_shop

from millstream.log import ProducerRecord, Scope, open_log
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.instance_lock import lock_application

WORDS = """
from millstream import App
from helper import split

app = App("word-count")
words = app.stream("lines", value=str).flat_map_values(split)
words.group_by(lambda word: word).count(store="counts").to_stream().to("word-counts")

def make():
    other = App("other")
    other.stream("a").to("b")
    return other

def fails():
    return 1 / 0

if __name__ == "__main__":
    raise AssertionError("this is no script now")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.py").write_text(WORDS)
    (tmp_path / "helper.py").write_text("def split(line):\n    return line.split()\n")
    return tmp_path


@pytest.mark.parametrize("target", ["words.py", "words.py:app", "words:app", "words"])
def test_an_application_is_loaded_by_file_or_module(process: Run, folder: Path, target: str) -> None:
    described = process("describe", target, cwd=folder)
    assert described.code == 0
    assert described.out.startswith("Topologies:\n   Sub-topology: 0\n    Source: lines-source (topics: [lines])")


def test_a_script_that_has_changed_within_a_second_is_loaded_anew(process: Run, folder: Path) -> None:
    for topic in ("first", "other"):
        (folder / "quick.py").write_text(f"from millstream import App\napp = App('s')\napp.stream('{topic}').to('b')\n")
        os.utime(folder / "quick.py", (1_700_000_000, 1_700_000_000))
        assert f"(topics: [{topic}])" in process("describe", "quick.py", cwd=folder).out


def test_an_application_may_be_a_package(process: Run, folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text(
        "from millstream import App\napp = App('s')\napp.stream('a').to('b')\n"
    )
    assert process("describe", "shop", cwd=folder).code == 0
    assert process("describe", "shop:app", cwd=folder).code == 0


def test_a_file_in_another_directory_a_factory_and_other_formats_are_supported(process: Run, folder: Path) -> None:
    described = process("describe", f"{folder / 'words.py'}:make", "--format", "json", cwd=Path("/"))
    assert json.loads(described.out)["sub_topologies"][0]["nodes"][0]["topics"] == ["a"]
    assert process("describe", "words.py", "--format", "mermaid", cwd=folder).out.startswith("flowchart")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("x = 1\nApp('a b')\n", "bad.py", "bad.py:3: application name 'a b' is not allowed"),
        (
            "x = 1\nApp('a').stream('b').filtr(x)\n",
            "bad.py",
            "bad.py:3: a Stream has no 'filtr'\nhint: did you mean 'filter'?",
        ),
        ("def f(:\n", "bad.py", "bad.py:2: SyntaxError: "),
        ("import nothing_of_that_name\n", "bad:app", "bad.py:2: ModuleNotFoundError: "),
        ("raise SystemExit(0)\n", "bad.py", "bad.py:2: the file exits the program"),
        ("x = 1\n", "bad.py", "there is no application in bad.py"),
        ("one, two = App('one'), App('two')\n", "bad.py", "there are several applications in bad.py"),
        ("app = App('one')\n", "bad.py:ap", "there is no 'ap' in bad.py"),
        ("app = 5\n", "bad.py:app", "'app' in bad.py is not an application: it is of type int"),
        ("", "words.py:fails", "words.py:15: ZeroDivisionError: division by zero"),
        ("", "nowhere.py", "there is no file nowhere.py"),
        ("", ".", ". is a directory"),
        ("", "nowhere:app", "there is no module 'nowhere'"),
    ],
)
def test_an_error_in_a_file_is_reported_with_its_line(
    process: Run, folder: Path, source: str, target: str, message: str
) -> None:
    (folder / "bad.py").write_text(f"from millstream import App\n{source}")
    result = process("describe", target, cwd=folder)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) <= 2


def test_an_application_without_a_topology_is_not_run(process: Run, folder: Path) -> None:
    (folder / "empty.py").write_text("from millstream import App\napp = App('empty')\n")
    result = process("run", "empty.py", cwd=folder)
    assert (result.code, result.err.splitlines()[0]) == (1, "error: application 'empty' reads no topic")


def test_configuration_is_checked(process: Run, folder: Path) -> None:
    wrong = process("run", "words.py", "--config", "num.task=2", cwd=folder)
    assert wrong == (1, "", "error: unknown configuration key 'num.task'\nhint: did you mean 'num.tasks'?\n")
    fixed = process("run", "words.py", "-c", "default.key.serde=long", cwd=folder)
    assert fixed.err.startswith("error: default.key.serde: it cannot be changed after the topology is built")


def test_a_missing_topic_is_reported_before_spark_starts(process: Run, folder: Path) -> None:
    result = process("run", "words.py", cwd=folder)
    assert result.code == 1
    assert result.err == (
        "error: words.py:6: there is no topic 'lines'\nhint: create it: millstream topics create NAME\n"
    )


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_application_runs_until_it_has_caught_up(process: Run, folder: Path, data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("lines", 2)
        log.produce("lines", [ProducerRecord(None, b"to be or not to be")])
    ran = process("run", "words.py", "--until-caught-up", "--status", "json", cwd=folder)
    assert ran.code == 0, ran.err
    assert json.loads(ran.err.splitlines()[-1])["state"] == "NOT_RUNNING"
    assert process("stores", "get", "word-count", "counts", "be", "-o", "json").lines[0]["value"] == 2


def test_an_application_runs_locally_until_it_has_caught_up(process: Run, folder: Path, data: Path) -> None:
    with open_log(data) as log:
        log.create_topic("lines", 2)
        log.produce("lines", [ProducerRecord(None, b"to be or not to be")])
    ran = process("run", "words.py", "--local", "--until-caught-up", "--status", "json", cwd=folder)
    assert ran.code == 0, ran.err
    assert json.loads(ran.err.splitlines()[-1])["state"] == "NOT_RUNNING"
    assert process("stores", "get", "word-count", "counts", "be", "-o", "json").lines[0]["value"] == 2


def test_an_application_runs_in_one_mode(process: Run, folder: Path) -> None:
    both = process("run", "words.py", "--local", "--real-time", cwd=folder)
    assert (both.code, both.out) == (2, "")
    assert both.err.startswith("error: only one of --real-time and --local can be given")


# ----- applications that have run --------------------------------------------------------------------------------


def test_a_topology_is_compared_with_the_one_that_ran(shop_data: Path, shop: Run, folder: Path, process: Run) -> None:
    def compared(source: str, *options: str) -> tuple[int, str]:
        (folder / "changed.py").write_text(source)
        result = process("plan-diff", "changed.py", "--data", str(shop_data), *options, cwd=folder)
        return result.code, result.out

    assert compared(SHOP)[0] == 0
    code, text = compared(SHOP.replace("key=int, value=str", "key=str, value=str"))
    assert code == 3
    assert "its keys were long, and are now string" in text
    code, text = compared(SHOP.replace("key=int, value=str", "key=str, value=str"), "-o", "json")
    assert code == 3
    assert json.loads(text)["compatible"] is False
    code, text = compared(SHOP.replace('store="minutes"', 'store="by-minute"'))
    assert code == 4
    assert text.startswith("Compatible, but the contents of these stores are lost: minutes.\n")
    code, text = compared('from millstream import App\napp = App("shop")\napp.stream("orders").to("copies")\n')
    assert code == 3
    assert "checkpoint: incompatible\n    - the topology was stateful so far, and no operator needs state" in text
    code, text = compared(SHOP.replace('App("shop")', 'App("another")'))
    assert (code, text) == (0, "Application another has not run yet: there is no state to compare with.\n")


def test_only_an_option_overrides_the_data_directory_of_the_file(tmp_path: Path, process: Run, folder: Path) -> None:
    make_shop(folder / "own" / "data")
    here = SHOP.replace('App("shop")', f'App("shop", config={{"state.dir": {str(folder / "own" / "data")!r}}})')
    (folder / "shop.py").write_text(here)
    process("topics", "create", "orders")
    assert process("plan-diff", "shop.py", cwd=folder).out.startswith("Compatible: ")
    elsewhere = process("plan-diff", "shop.py", "--data", str(tmp_path / "data"), cwd=folder)
    assert elsewhere.out.startswith("Application shop has not run yet")


def test_an_incompatible_topology_is_not_run(tmp_path: Path, process: Run) -> None:
    make_shop(tmp_path / "data")
    (tmp_path / "shop.py").write_text(SHOP.replace("key=int, value=str", "key=str, value=str"))
    result = process("run", "shop.py")
    assert result.code == 3
    assert result.err.startswith("error: application 'shop' cannot use its existing state.\n")
    assert result.err.endswith("hint: nothing was changed; run the former topology to continue\n")


@pytest.fixture
def own_shop(tmp_path: Path, inside: Inside) -> Run:
    """A shop that a test may change."""
    return inside(make_shop(tmp_path / "data"))


def test_a_reset_prints_its_steps_and_executes_them_with_execute(own_shop: Run) -> None:
    (planned,) = own_shop("reset", "shop", "-o", "json").lines
    assert planned["done"] is False
    assert "delete the internal topic shop-minutes-changelog" in planned["steps"]
    assert own_shop("stores", "list", "shop").code == 0

    refused = own_shop("reset", "shop", "--execute")
    assert refused.code == 1
    assert "error: this cannot be undone, and there is no terminal to ask on\nhint: add --yes\n" in refused.err
    assert own_shop("stores", "list", "shop").code == 0

    (done,) = own_shop("reset", "shop", "--to", "latest", "--execute", "--yes", "-o", "json").lines
    assert done == {
        "application": "shop",
        "done": True,
        "steps": [
            *(step.replace("delete ", "deleted ") for step in planned["steps"][:-1]),
            "the next start begins to read at the latest",
        ],
    }
    assert own_shop("groups", "list").err == "there are no groups\n"
    assert {topic["name"] for topic in own_shop("topics", "list", "--all", "-o", "json").lines} == {
        "counts", "numbers", "orders", "prices",
    }  # fmt: skip


def test_an_executed_reset_prints_its_steps(own_shop: Run) -> None:
    done = own_shop("reset", "shop", "--execute", "--yes")
    assert (done.code, done.err) == (0, "")
    first, *steps = done.out.splitlines()
    assert first == "shop: done"
    assert "  - deleted the internal topic shop-minutes-changelog" in steps
    assert steps[-1] == "  - the next start begins to read at the earliest"
    assert not [step for step in steps if "delete " in step or "--execute" in step]


def test_a_reset_to_an_offset(own_shop: Run) -> None:
    (done,) = own_shop("reset", "shop", "--to-offset", "3", "--execute", "--yes", "-o", "json").lines
    assert done["steps"][-1] == "the next start begins to read at offset 3"
    assert own_shop("reset", "shop", "--to-offset", "-1").code == 2


def test_a_reset_requires_that_a_remote_checkpoint_was_deleted(own_shop: Run, data: Path) -> None:
    with open_log(data) as log:
        moved = ApplicationState(checkpoint_location="s3a://bucket/shop")
        log.applications.set_state(Scope("shop"), moved.dump(), log.applications.acquire(Scope("shop")))
    for options in ([], ["--execute", "--yes"]):
        result = own_shop("reset", "shop", *options)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(
            "error: the checkpoint of application 'shop' cannot be deleted from here: s3a://bucket/shop\n"
        )
        assert "--checkpoint-gone" in result.err
    assert own_shop("stores", "list", "shop").code == 0
    (done,) = own_shop("reset", "shop", "--checkpoint-gone", "--execute", "--yes", "-o", "json").lines
    assert "left the checkpoint s3a://bucket/shop, which should be gone" in done["steps"]


def test_a_running_application_is_not_reset(own_shop: Run, data: Path) -> None:
    with lock_application(data / "applications" / "shop", "shop"):
        result = own_shop("reset", "shop", "--execute", "--yes")
    assert result.code == 1
    assert result.err.startswith("error: application 'shop' is running already (process ")
    assert own_shop("stores", "list", "shop").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["shp"], 1, "there is no application 'shp' here\nhint: did you mean 'shop'?"),
        (["shop", "--to", "latest", "--to-offset", "1"], 2, "only one of --to and --to-offset can be given"),
        (["shop", "--to", "noon"], 2, "--to: cannot read the time 'noon'\nhint: write earliest, latest, "),
    ],
)
def test_invalid_options_of_a_reset_are_refused(shop: Run, arguments: list[str], code: int, message: str) -> None:
    result = shop("reset", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"error: {message}")


def test_a_migration_prints_its_steps_and_executes_them_with_execute(tmp_path: Path, process: Run) -> None:
    make_shop(tmp_path / "data")
    planned = process("migrate", "shop.py")
    assert "rebuild store minutes from shop-minutes-changelog" in planned.out
    assert planned.err == "nothing was done; add --execute to execute the steps\n"
    done = process("migrate", "shop.py", "--execute", "--yes", "-o", "json")
    assert done.lines[0]["done"] is True
    assert "the next start rebuilds store minutes from shop-minutes-changelog" in done.lines[0]["steps"]
    (tmp_path / "new.py").write_text("from millstream import App\napp = App('new')\napp.stream('orders').to('x')\n")
    (tmp_path / "renamed.py").write_text(SHOP.replace('store="minutes"', 'store="by-minute"'))
    assert "give up store minutes" in process("migrate", "renamed.py").out
    assert process("migrate", "new.py").err.startswith("error: application 'new' has nothing to migrate")
