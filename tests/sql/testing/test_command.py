"""``millstream sql test`` runs cases and reports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.main import main

STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON');"
COPY = "CREATE STREAM o AS SELECT k, v + 1 AS w FROM s;"
INPUT = {"topic": "t", "key": "a", "value": {"v": 1}, "timestamp": 5}
OUTPUT = {"topic": "O", "key": "a", "value": {"W": 2}, "timestamp": 5}


def node(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "statements": [STREAM, COPY], "inputs": [INPUT], "outputs": [OUTPUT], **members}


def error(kind: str, message: str = "") -> dict[str, Any]:
    return {"expectedException": {"type": kind, "message": message}, "inputs": [], "outputs": []}


def run(folder: Path, capsys: pytest.CaptureFixture[str], *nodes: dict[str, Any], options: tuple[str, ...] = ()) -> Any:
    path = folder / "file.json"
    path.write_text(json.dumps({"tests": nodes}), encoding="utf-8")
    code = main(["sql", "test", "--json", *options, str(path)])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def outcomes(lines: list[dict[str, Any]]) -> list[str]:
    return [line["outcome"] for line in lines]


def test_a_case_that_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, [line] = run(tmp_path, capsys, node("copy"))

    assert (code, line["outcome"], line["message"]) == (0, "passed", "")
    assert line["case"] == "file - copy"
    assert line["file"] == str(tmp_path / "file.json")
    assert "message_match" not in line
    assert line["seconds"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": [{**OUTPUT, "value": {"W": 3}}]}, "value.W is 2, expected 3"),
        ({"outputs": [{**OUTPUT, "key": "b"}]}, "key is 'a', expected 'b'"),
        ({"outputs": [{**OUTPUT, "timestamp": 6}]}, "the timestamp is 5, expected 6"),
        ({"outputs": [{**OUTPUT, "headers": [{"KEY": "h", "VALUE": None}]}]}, "the headers are"),
        ({"outputs": [OUTPUT, OUTPUT]}, "O has 1 records, expected 2"),
        ({"inputs": [INPUT, INPUT]}, "O has 2 records, expected 1"),
        (
            {"statements": [STREAM.replace("'JSON'", "'AVRO'"), COPY], "inputs": [{**INPUT, "value": {"v": "x"}}]},
            "input 1 cannot be written to the topic t: ValueError: invalid literal for int()",
        ),
        ({"statements": [STREAM]}, "no persistent query"),
        ({"statements": [STREAM, "SELEC;"]}, "Unknown statement 'SELEC'"),
        ({"post": {"sources": [{"name": "X", "type": "stream"}]}}, "there is no source X"),
        ({"post": {"sources": [{"name": "O", "type": "table"}]}}, "it is a STREAM"),
        ({"post": {"sources": [{"name": "O", "type": "stream", "schema": "K STRING KEY, W BIGINT"}]}}, "its schema"),
        ({"post": {"sources": [{"name": "O", "type": "stream", "valueFormat": "AVRO"}]}}, "its value format"),
        ({"post": {"topics": {"topics": [{"name": "none"}]}}}, "there is no topic none"),
    ],
)
def test_a_check_that_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    code, [line] = run(tmp_path, capsys, node("case", **changes))

    assert (code, line["outcome"]) == (1, "failed")
    assert message in line["message"]


def test_the_catalog_after_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = {
        "name": "O",
        "type": "stream",
        "schema": "`K` STRING KEY, `W` INT",
        "keyFormat": {"format": "KAFKA"},
        "valueFormat": "JSON",
        "valueFeatures": [],
    }
    post = {"sources": [source], "topics": {"blacklist": ".*-repartition"}}

    code, lines = run(tmp_path, capsys, node("post", post=post))

    assert (code, outcomes(lines)) == (0, ["passed"])


def test_negative_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad_column = [STREAM, "CREATE STREAM o AS SELECT k, nothing FROM s;"]
    code, lines = run(
        tmp_path,
        capsys,
        node("wrong column", **error("x.KsqlStatementException", "NOTHING"), statements=bad_column),
        node("other message", **error("x.KsqlStatementException", "SOMETHING"), statements=bad_column),
        node("syntax", **error("x.ParseFailedException"), statements=[STREAM, "SELEC;"]),
        node("other class", **error("x.ParseFailedException"), statements=bad_column),
        node("no error", **error("x.KsqlException")),
        node("too early", **error("x.KsqlException"), statements=[*bad_column, COPY]),
    )

    assert code == 1
    assert outcomes(lines) == ["passed", "passed", "passed", "failed", "failed", "failed"]
    assert [line["message_match"] for line in lines] == [True, False, True, False, False, False]


def test_a_filter_and_the_first_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("a1"), node("b", statements=[STREAM]), node("a2")]

    assert outcomes(run(tmp_path, capsys, *nodes, options=("--filter", "a[12]"))[1]) == ["passed", "passed"]
    assert outcomes(run(tmp_path, capsys, *nodes, options=("--fail-fast",))[1]) == ["passed", "failed"]
    assert main(["sql", "test", "--filter", "(", str(tmp_path / "file.json")]) == 2


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "test", "--json", str(tmp_path / "none.json")]) == 2

    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["case"], line["outcome"]) == ("none", "error")


def test_the_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"tests": [node("a"), node("b", statements=[STREAM])]}), encoding="utf-8")

    assert main(["sql", "test", str(path)]) == 1

    printed = capsys.readouterr().out
    assert "failed   file - b" in printed
    assert "file - a" not in printed
    assert "PASSED" in printed


def test_sql_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.sql"
    create = f"{STREAM}\n{COPY}\nINSERT INTO s (k, v) VALUES ('a', 1);\n"
    path.write_text(
        f"--@test: good\n{create}ASSERT VALUES o (k, w) VALUES ('a', 2);\n"
        f"ASSERT STREAM o (k STRING KEY, w INT) WITH (kafka_topic='O');\n"
        f"--@test: wrong value\n{create}ASSERT VALUES o (k, w) VALUES ('a', 3);\n"
        f"--@test: no record\n{STREAM}\nASSERT VALUES s (k) VALUES ('a');\n"
        f"--@test: wrong schema\n{STREAM}\nASSERT STREAM s (k STRING KEY, v BIGINT);\n"
        f"--@test: negative\n--@expected.error: x.KsqlException\n--@expected.message: does not match\n{create}"
        f"ASSERT VALUES o (w) VALUES (3);\n",
        encoding="utf-8",
    )

    assert main(["sql", "test", "--json", str(path)]) == 1

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert outcomes(lines) == ["passed", "failed", "failed", "failed", "passed"]
    assert lines[-1]["message_match"] is True


def test_a_sql_file_runs_scripts_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.sql").write_text(f"{STREAM}\n{COPY}", encoding="utf-8")
    (tmp_path / "endless.sql").write_text("RUN SCRIPT 'endless.sql';", encoding="utf-8")
    path = tmp_path / "x.sql"
    path.write_text(
        "--@test: good\nRUN SCRIPT 'setup.sql';\nINSERT INTO s VALUES ('a', 1);\nASSERT VALUES o (w) VALUES (2);\n"
        "--@test: missing\nRUN SCRIPT 'none.sql';\n--@test: endless\nRUN SCRIPT 'endless.sql';\n",
        encoding="utf-8",
    )

    assert main(["sql", "test", "--json", str(path)]) == 1

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert outcomes(lines) == ["passed", "failed", "failed"]
    assert "none.sql" in lines[1]["message"]
    assert "more than 100 scripts" in lines[2]["message"]


REQUESTS = Path(__file__).parents[1] / "cases" / "requests.json"


def test_a_file_of_requests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "test", "--json", str(REQUESTS)]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [node["name"] for node in json.loads(REQUESTS.read_text(encoding="utf-8"))["tests"]]
    assert [line["case"] for line in lines] == [f"requests - {name}" for name in names]
    assert outcomes(lines) == ["passed"] * len(names)
    assert {line.get("message_match") for line in lines} == {None, True}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"responses": [{"admin": {"@type": "streams"}}]}, "@type is 'currentStatus', expected 'streams'"),
        ({"responses": [{"admin": {"none": 1}}]}, "response 1 has no none"),
        ({"responses": [{"admin": {}}, {"query": [{"header": {"schema": "`W` INTEGER"}}]}]}, "has 3 rows, expected 1"),
        ({"expectedError": {"type": "x.KsqlErrorMessage", "message": "", "status": 400}}, "all requests succeed"),
        ({"outputs": [{**INPUT, "key": "b"}]}, "key is 'a', expected 'b'"),
    ],
)
def test_a_request_that_is_answered_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    query = {"statements": [STREAM, "SELECT v FROM s EMIT CHANGES LIMIT 1;"], "outputs": []}

    code, [line] = run(tmp_path, capsys, node("request", **{**query, "responses": [], **changes}))

    assert (code, line["outcome"]) == (1, "failed")
    assert message in line["message"]
