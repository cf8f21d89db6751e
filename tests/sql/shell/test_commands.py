"""The shell without a terminal: -e, -f and stdin."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.cli.main import main

Run = Callable[..., tuple[int, str, str]]

VIEWS = (
    "CREATE STREAM v (k STRING KEY, page STRING, ms BIGINT) WITH (kafka_topic='v', value_format='JSON', partitions=1);"
)
EARLIEST = "SET 'auto.offset.reset'='earliest';"
INSERTS = "INSERT INTO v VALUES ('ann', 'home, \"sweet\"', 5); INSERT INTO v VALUES ('bob', NULL, 15);"


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the shell on a data directory; returns its exit code, stdout and stderr."""

    def shell(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(["sql", "--data", str(tmp_path / "data"), *arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return shell


def test_statements_of_the_command_line_are_carried_out_in_their_order(run: Run) -> None:
    code, out, err = run("-e", VIEWS, "-e", f"{EARLIEST} {INSERTS}", "-e", "SELECT k, ms FROM v EMIT CHANGES LIMIT 2;")
    assert (code, err) == (0, "Limit Reached\n")
    assert out.split() == ["Stream", "created", "K", "│", "MS", *out.split()[5:6], "ann", "│", "5", "bob", "│", "15"]


def test_results_are_json_or_csv(run: Run) -> None:
    run("-e", f"{VIEWS} {INSERTS}")
    code, out, _err = run("--output", "json", "-e", f"{EARLIEST} SELECT * FROM v;")
    assert code == 0
    assert list(map(json.loads, out.splitlines())) == [
        {"K": "ann", "PAGE": 'home, "sweet"', "MS": 5},
        {"K": "bob", "PAGE": None, "MS": 15},
    ]
    code, out, _err = run("--output", "csv", stdin="SELECT * FROM v;")
    assert (code, out) == (0, 'K,PAGE,MS\nann,"home, ""sweet""",5\nbob,,15\n')


def test_a_table_has_its_rows_after_a_restart_and_pull_queries_find_them(run: Run) -> None:
    run("-e", f"{VIEWS} {EARLIEST} CREATE TABLE n AS SELECT k, COUNT(*) AS c FROM v GROUP BY k; {INSERTS}")
    deadline = time.monotonic() + 60
    out = ""
    while "bob" not in out and time.monotonic() < deadline:
        _code, out, _err = run("--output", "csv", "-e", "SELECT * FROM n;")
    assert out == "K,C\nann,1\nbob,1\n"
    assert run("--output", "csv", "-e", "SELECT * FROM n WHERE k = 'bob';")[1] == "K,C\nbob,1\n"


def test_windows_are_found_by_key_and_bounds(run: Run) -> None:
    run(
        "-e",
        f"{VIEWS} {EARLIEST} CREATE TABLE w AS SELECT k, COUNT(*) AS c FROM v WINDOW TUMBLING (SIZE 10 SECONDS) "
        "GROUP BY k;"
        "INSERT INTO v (ROWTIME, k) VALUES (1000, 'ann'); INSERT INTO v (ROWTIME, k) VALUES (12000, 'ann');"
        "INSERT INTO v (ROWTIME, k) VALUES (13000, 'bob'); SELECT * FROM w EMIT CHANGES LIMIT 3;",
    )
    everything = "K,WINDOWSTART,WINDOWEND,C\nann,0,10000,1\nann,10000,20000,1\n"
    assert run("--output", "csv", "-e", "SELECT * FROM w WHERE k = 'ann';")[1] == everything
    late = "SELECT * FROM w WHERE k = 'ann' AND WINDOWSTART >= 10000;"
    assert run("--output", "csv", "-e", late)[1] == "K,WINDOWSTART,WINDOWEND,C\nann,10000,20000,1\n"


def test_the_first_error_ends_the_run_with_its_place(run: Run) -> None:
    code, out, err = run("-e", f"{VIEWS}\nSELECT\n  nope FROM v; SHOW TABLES;")
    assert code == 1
    assert out == "Stream created\n"
    assert err.splitlines()[:3] == [
        "error: line 3, column 3: SELECT column 'NOPE' cannot be resolved.",
        "      nope FROM v; SHOW TABLES;",
        "      ^",
    ]
    code, _out, err = run("-e", "SELEC 1;")
    assert code == 1
    assert "line 1, column 1" in err
    assert "Traceback" not in err


def test_a_script_runs_others_beside_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "all.sql").write_text("DEFINE name = 'v';\nRUN SCRIPT 'source.sql';\nDESCRIBE ${name};\n")
    (tmp_path / "scripts" / "source.sql").write_text(VIEWS)
    code, out, _err = run("-f", str(tmp_path / "scripts" / "all.sql"))
    assert code == 0
    assert "V: stream of topic v" in out
    (tmp_path / "scripts" / "itself.sql").write_text("RUN SCRIPT 'itself.sql';")
    code, _out, err = run("-f", str(tmp_path / "scripts" / "itself.sql"))
    assert code == 1
    assert "run each other" in err


def test_the_catalog_is_shown(run: Run) -> None:
    run("-e", f"{VIEWS} CREATE STREAM big AS SELECT * FROM v WHERE ms > 10;")
    for statement, expected in (
        ("SHOW STREAMS;", "BIG"),
        ("SHOW QUERIES;", "CSAS_BIG_1  RUNNING"),
        ("DESCRIBE big;", "writes it"),
        ("DESCRIBE big EXTENDED;", "Value format  JSON"),
        ("EXPLAIN CSAS_BIG_1;", "Sink: BIG-sink"),
        ("SHOW PROPERTIES;", "auto.offset.reset"),
        ("DESCRIBE FUNCTION ucase;", "STRING"),
    ):
        code, out, _err = run("-e", statement)
        assert code == 0
        assert expected in out, statement
    code, out, _err = run("-e", f"{INSERTS} PRINT 'v' FROM BEGINNING LIMIT 1;")
    assert (code, '"ann"' in out) == (0, True)


def test_a_replaced_query_continues_in_the_same_topic(run: Run) -> None:
    run("-e", f"{VIEWS} {EARLIEST} CREATE STREAM big AS SELECT * FROM v WHERE ms > 10; {INSERTS}")
    run("-e", f"{EARLIEST} SELECT * FROM big EMIT CHANGES LIMIT 1;")
    code, _out, err = run("-e", f"CREATE OR REPLACE STREAM big AS SELECT * FROM v WHERE ms > 1; {INSERTS}")
    assert code == 0, err
    _code, out, _err = run("--output", "csv", "-e", f"{EARLIEST} SELECT k, ms FROM big EMIT CHANGES LIMIT 3;")
    assert out == "K,MS\nbob,15\nann,5\nbob,15\n"


def test_another_name_is_another_catalog(run: Run) -> None:
    run("-e", VIEWS)
    assert "V" not in run("--name", "other", "-e", "SHOW STREAMS;")[1].split()
    assert run("--name", "../other", "-e", "SHOW STREAMS;")[0] == 1
