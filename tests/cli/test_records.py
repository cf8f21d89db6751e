"""`produce` and `consume`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.conftest import MILLSTREAM, Run, environment

from millstream import Windowed
from millstream.log import Append, ProducerRecord, open_log
from millstream.log.blocks import encode, encode_headers
from millstream.serde import STRING, time_windowed


@pytest.fixture
def orders(millstream: Run) -> Run:
    millstream("topics", "create", "orders")
    return millstream


def test_produced_lines_are_consumed(orders: Run) -> None:
    written = orders("produce", "orders", given="one\ntwo\r\n\nthree")
    assert written.code == 0
    assert written.out == ""
    assert written.err.startswith("4 records written to orders in ")
    assert orders("consume", "orders", "--from-beginning").out == "null\tone\nnull\ttwo\nnull\t\nnull\tthree\n"


def test_keys_nulls_and_serdes_are_supported(orders: Run, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("a=1\nb=-\n")
    options = [
        "--key-separator",
        "=",
        "--value-serde",
        "long",
        "--null-marker",
        "-",
        "--timestamp",
        "1970-01-01T00:00:05",
    ]
    (told,) = orders("produce", "orders", "--file", str(tmp_path / "input"), *options, "-o", "json").lines
    assert (told["topic"], told["records"]) == ("orders", 2)
    assert orders("consume", "orders", "--from-beginning", "--value-serde", "long", "-o", "json").lines == [
        {"topic": "orders", "partition": 0, "offset": 0, "timestamp": 5000, "key": "a", "value": 1},
        {"topic": "orders", "partition": 0, "offset": 1, "timestamp": 5000, "key": "b", "value": None},
    ]


def test_produce_accepts_the_json_of_consume(orders: Run) -> None:
    lines = (
        '{"key": "k", "value": {"a": [1]}, "timestamp": 7, "headers": {"trace": "t1"}}\n'
        '{"key": null, "value_base64": "//4A", "partition": 0, "timestamp": "1970-01-01T00:00:01Z"}\n'
    )
    assert orders("produce", "orders", "--format", "json", given=lines).code == 0
    first = orders("consume", "orders", "--from-beginning", "-o", "json")
    assert first.lines[0]["value"] == '{"a":[1]}'
    assert first.lines[0]["headers"] == [["trace", "t1"]]
    assert first.lines[1]["value_base64"] == "//4A"
    assert first.lines[1]["timestamp"] == 1000
    orders("produce", "orders", "--format", "json", given=first.out)
    both = orders("consume", "orders", "--from-beginning", "-o", "json").lines
    assert [{**row, "offset": 0} for row in both[:2]] == [{**row, "offset": 0} for row in both[2:]]


def test_bytes_that_are_not_text_are_escaped(orders: Run) -> None:
    given = '{"key": "\\u001b[31m", "value_base64": "//4KAA=="}\n'
    orders("produce", "orders", "--format", "json", given=given)
    assert orders("consume", "orders", "--from-beginning").out == "\\x1b[31m\t\\xff\\xfe\\n\\x00\n"
    typed = orders("consume", "orders", "--from-beginning", "--value-serde", "long")
    assert typed.out == "\\x1b[31m\t(not long) 0xfffe0a00\n"


def test_windowed_keys_are_decoded(orders: Run, data: Path) -> None:
    key = time_windowed(STRING, 60_000).serialize(Windowed("north", 60_000, 120_000))
    with open_log(data) as log:
        log.produce("orders", [ProducerRecord(key, b"3", 1)])
    (row,) = orders("consume", "orders", "--from-beginning", "--key-serde", "windowed:text:1m", "-o", "json").lines
    assert row["key"] == {"key": "north", "start": 60_000, "end": 120_000}
    wrong = orders("consume", "orders", "--key-serde", "windowed:string")
    assert wrong.code == 2
    assert wrong.err.endswith("hint: write the serde of the key and the window size: windowed:string:1m\n")


SERDES = """
from dataclasses import dataclass
from millstream import App

@dataclass
class Visit:
    pages: int

app = App("visits", config={"errors.dead.letter.queue.topic.name": "dead"})
visits = app.stream("orders", key=int, value=Visit)
visits.to("copy", value=str)
app.global_table("everywhere", key=int, value=int)
visits.to(lambda value: "chosen", key=str)
"""


def test_app_selects_the_serdes_of_the_topic(orders: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SERDES)
    records = [ProducerRecord((7).to_bytes(8), b'{"pages":3}', 1)]
    with open_log(data) as log:
        for topic in ("orders", "copy", "chosen", "dead", "everywhere"):
            log.create_topic(topic, exist_ok=True)
            log.produce(topic, records)

    def read(topic: str, *options: str) -> str:
        return orders("consume", topic, "--app", str(tmp_path / "app.py"), "--from-beginning", *options).out

    number = "\\x00" * 7 + "\\x07"
    assert read("orders") == '7\t{"pages": 3}\n'
    assert read("everywhere") == "7\t(not long) 0x7b227061676573223a337d\n"
    assert read("copy") == '7\t{"pages":3}\n'
    assert read("chosen") == f'{number}\t{{"pages": 3}}\n'
    assert read("dead") == f'{number}\t{{"pages":3}}\n'
    assert read("orders", "--key-serde", "bytes") == '0x0000000000000007\t{"pages": 3}\n'


def test_app_without_the_topic_is_an_error(orders: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from millstream import App\napp = App('a')\napp.stream('order').to('out')\n")
    result = orders("consume", "orders", "--app", str(tmp_path / "app.py"))
    assert result == (2, "", "error: --app: application 'a' has no topic 'orders'\nhint: did you mean 'order'?\n")


def test_consume_starts_at_the_requested_position(orders: Run) -> None:
    lines = "".join(f'{{"value": "{number}", "timestamp": {number * 1000}}}\n' for number in range(10))
    orders("produce", "orders", "--format", "json", given=lines)

    def read(*options: str) -> list[str]:
        return [row["value"] for row in orders("consume", "orders", "-o", "json", *options).lines]

    assert read("--offset", "8") == ["8", "9"]
    assert read("--offset", "-3") == ["7", "8", "9"]
    assert read("--offset", "-30", "--max-records", "2") == ["0", "1"]
    assert read("--timestamp", "1970-01-01T00:00:07Z") == ["7", "8", "9"]
    assert read("--timestamp", "9000", "--partition", "0") == ["9"]
    assert read("--offset", "30") == []
    assert len(read("--from-beginning", "--max-records", "9" * 30)) == 10
    assert read("--no-follow") == []


def test_a_group_continues_from_its_committed_offsets(orders: Run) -> None:
    orders("produce", "orders", given="1\n2\n3\n4\n5\n")

    def read(*options: str) -> list[str]:
        return orders("consume", "orders", "--group", "checks", *options).out.split()[1::2]

    assert read("--from-beginning", "--max-records", "2") == ["1", "2"]
    assert orders("groups", "describe", "checks", "-o", "json").lines == [
        {"topic": "orders", "partition": 0, "offset": 2, "end": 5, "lag": 3}
    ]
    assert read() == ["3", "4", "5"]
    assert read() == []
    assert orders("groups", "list", "-o", "json").lines == [
        {"group": "checks", "type": "consumer", "topics": ["orders"], "lag": 0}
    ]


def test_follow_waits_until_it_is_interrupted(orders: Run, data: Path) -> None:
    command = [str(MILLSTREAM), "consume", "orders", "--from-beginning", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(data)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for number in range(3):
            orders("produce", "orders", given=f"{number}\n")
            assert process.stdout.readline() == f"null\t{number}\n".encode()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b""


def test_slow_input_is_written_without_delay(orders: Run, data: Path) -> None:
    command = [str(MILLSTREAM), "consume", "orders", "--follow", "--from-beginning", "--max-records", "1"]
    with subprocess.Popen([str(MILLSTREAM), "produce", "orders"], stdin=subprocess.PIPE, env=environment(data)) as slow:
        assert slow.stdin is not None
        slow.stdin.write(b"first\nnot yet en")
        slow.stdin.flush()
        seen = subprocess.run(command, capture_output=True, env=environment(data), check=True)
        assert seen.stdout == b"null\tfirst\n"
        slow.stdin.write(b"ded\n")
        slow.stdin.close()
        assert slow.wait() == 0
    assert orders("consume", "orders", "--offset", "-1").out == "null\tnot yet ended\n"


def test_a_closed_pipe_is_no_error(orders: Run, data: Path) -> None:
    orders("produce", "orders", given="".join(f"{number}\n" for number in range(100_000)))
    reading, writing = os.pipe()
    command = [str(MILLSTREAM), "consume", "orders", "--from-beginning"]
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, env=environment(data)) as process:
        os.close(writing)
        assert os.read(reading, 6) == b"null\t0"
        os.close(reading)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_rate_limits_the_records_per_second(orders: Run) -> None:
    (told,) = orders("produce", "orders", "--rate", "20", "-o", "json", given="1\n2\n3\n4\n5\n").lines
    assert told["records"] == 5
    assert told["seconds"] >= 0.1


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        (["--key-separator", ":"], "a:1\nb\n", 1, "line 2: there is no ':' between key and value"),
        (["--value-serde", "long"], "1\nx\n", 1, "line 2, value: 'x' is not a long"),
        (["--value-serde", "int"], f"1\n{2**40}\n", 1, "line 2, value: int serde"),
        (["--format", "json"], '{"value": "a"}\nnot json\n', 1, "line 2 is not JSON"),
        (["--format", "json"], '{"value": "a"}\n[1]\n', 1, "line 2 is not a JSON object"),
        (["--format", "json"], '{"value": "a"}\n{"valu": 1}\n', 1, "line 2: there is no field 'valu'"),
        (["--format", "json"], '{"value": "a"}\n{"value_base64": "?"}\n', 1, "line 2: value_base64 is not base64"),
        (
            ["--format", "json"],
            '{"value": "a"}\n{"timestamp": 1.5}\n',
            1,
            "line 2: timestamp is 1.5, not",
        ),
        (["--format", "json"], '{"value": "a"}\n{"partition": true}\n', 1, "line 2: partition is true, not"),
        (["--format", "json"], '{"value": "a"}\n{"value": "\\ud800"}\n', 1, "line 2: value contains a lone surrogate"),
        (["--format", "json"], '{"value": "a"}\n{"headers": 5}\n', 1, "line 2: headers are an object"),
        ([], b"a\n\xff\n", 1, "line 2 is not UTF-8 text"),
    ],
)
def test_an_invalid_line_is_reported_and_earlier_lines_are_written(
    orders: Run, arguments: list[str], given: str | bytes, code: int, message: str
) -> None:
    result = orders("produce", "orders", *arguments, given=given)
    assert result.code == code
    assert result.err.splitlines()[0] == "written to orders before the error: 1"
    assert result.err.splitlines()[1].startswith(f"error: {message}")
    assert len(orders("consume", "orders", "--from-beginning").out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["produce", "ordrs"], 1, "there is no topic 'ordrs'"),
        (["produce", "orders", "--partition", "4"], 1, "topic 'orders' has no partition 4"),
        (["produce", "orders", "--file", "/nowhere"], 1, "/nowhere cannot be read: No such file or directory"),
        (["produce", "orders", "--file", "/"], 1, "the input cannot be read: Is a directory"),
        (["produce", "orders", "--rate", "0"], 2, "--rate: 0 is not above 0"),
        (["produce", "orders", "--value-serde", "lng"], 2, "--value-serde: there is no serde named 'lng'"),
        (["consume", "ordrs"], 1, "there is no topic 'ordrs'"),
        (["consume", "orders", "--partition", "-1"], 2, "--partition: -1 is negative"),
        (["consume", "orders", "--offset", "1", "--from-beginning"], 2, "only one of --from-beginning"),
        (["consume", "orders", "--timestamp", "noon"], 2, "--timestamp: cannot read the time 'noon'"),
        (["consume", "orders", "--max-records", "0"], 2, "--max-records: 0 is below 1"),
        (["consume", "orders", "--group", "a b"], 1, "consumer group name 'a b' is not allowed"),
    ],
)
def test_invalid_options_are_refused(orders: Run, arguments: list[str], code: int, message: str) -> None:
    result = orders(*arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {message}" in result.err
    assert len(result.err.splitlines()) <= 2


def test_a_record_with_unreadable_headers_is_printed(orders: Run, data: Path) -> None:
    with open_log(data) as log:
        headers = pa.array([b"\xc1", encode_headers((("trace", b"1"),))], pa.binary())
        log.append([Append("orders", 0, encode([1, 2], [b"k", b"k"], [b"bad", b"good"], headers))])
    read = orders("consume", "orders", "--from-beginning", "-o", "json")
    assert (read.code, [line["value"] for line in read.lines]) == (0, ["bad", "good"])
    assert "headers" not in read.lines[0]
    assert read.lines[0]["headers_error"]
    assert read.lines[1]["headers"] == [["trace", "1"]]
    assert orders("consume", "orders", "--from-beginning").out == "k\tbad\nk\tgood\n"
