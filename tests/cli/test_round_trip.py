"""`consume -o json | produce --format json` writes the same records with the same bytes."""

from __future__ import annotations

import io
import struct
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.cli.conftest import Run

from millstream import Windowed
from millstream.cli.main import main
from millstream.log import Log, ProducerRecord, open_log
from millstream.log.blocks import decode_headers
from millstream.serde import STRING, time_windowed

DATA = (
    st.none() | st.binary(max_size=12) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(str.encode)
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
RECORDS = st.builds(
    ProducerRecord,
    DATA,
    DATA,
    st.integers(0, 2**63 - 1) | st.integers(0, 2**41),
    st.lists(st.tuples(NAMES, DATA), max_size=4).map(tuple),
    st.integers(0, 1),
)


def stored(log: Log, topic: str) -> list[tuple[Any, ...]]:
    rows = []
    for partition, end in enumerate(log.ends([topic])[topic]):
        for row in log.read(topic, partition, 0, end).to_pylist():
            headers = decode_headers(row["headers"])
            rows.append((partition, row["offset"], row["timestamp"], row["key"], row["value"], headers))
    return rows


def call(*arguments: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    assert code == 0, err.getvalue()
    return out.getvalue()


@given(st.lists(RECORDS, min_size=1, max_size=60))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_byte_survives_a_round_trip(records: list[ProducerRecord]) -> None:
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with open_log(data) as log:
            log.create_topic("orders", 2)
            log.create_topic("copy", 2)
            log.produce("orders", records)
        lines = call("consume", "orders", "--from-beginning", "-o", "json", "--data", str(data))
        assert all(line.isprintable() for line in lines.split("\n"))
        (Path(folder) / "lines").write_text(lines, encoding="utf-8")
        file = str(Path(folder) / "lines")
        call("produce", "copy", "--format", "json", "--file", file, "--data", str(data))
        with open_log(data) as log:
            assert stored(log, "copy") == stored(log, "orders")


@pytest.mark.parametrize(
    ("serde", "values"),
    [
        ("long", [n.to_bytes(8, signed=True) for n in (0, -1, 2**63 - 1, -(2**63))] + [b"no long"]),
        ("double", [struct.pack(">d", n) for n in (0.1, -0.0, 1e300, float("inf"), float("-inf"))]),
        ("double", [b"\x7f\xf8\x00\x00\x00\x00\x00\x00"]),
        ("json", [b'{"a":[1,null,"\xc2\x9b"]}', str(2**70).encode(), b"NaN", b"null", b"[" * 900 + b"]" * 900]),
        ("uuid", [b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
        ("bytes", [b"\x00\xff", b"text"]),
        ("boolean", [b"\x01", b"\x00", b"\x02"]),
        ("windowed:long:1m", [(7).to_bytes(8) + (60_000).to_bytes(8)]),
        ("session:string", [b"k" + (90).to_bytes(8) + (5).to_bytes(8)]),
    ],
)
def test_typed_values_survive_a_round_trip(millstream: Run, data: Path, serde: str, values: list[bytes]) -> None:
    with open_log(data) as log:
        log.create_topic("orders")
        log.create_topic("copy")
        log.produce("orders", [ProducerRecord(value, value, 5) for value in values])
    options = ("--key-serde", serde, "--value-serde", serde)
    lines = millstream("consume", "orders", "--from-beginning", "-o", "json", *options)
    assert lines.lines
    assert "NaN," not in lines.out
    written = millstream("produce", "copy", "--format", "json", *options, given=lines.out)
    assert written.code == 0, written.err
    with open_log(data) as log:
        assert stored(log, "copy") == stored(log, "orders")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"value": NaN}', "line 2 is not JSON: JSON has no NaN"),
        ('{"value": -Infinity}', "line 2 is not JSON: JSON has no -Infinity"),
        ('{"value": 1e400}', "line 2 is not JSON: '1e400' exceeds the range of a 64-bit number"),
        ("[" * 100_000, "line 2 is not JSON: it is nested too deeply"),
        ('{"value": ' * 100_000 + "1" + "}" * 100_000, "line 2 is not JSON: it is nested too deeply"),
        ('{"value": ' + "1" * 5000 + "}", "line 2 is not JSON: a number has more than 4300 digits"),
        ('{"value": "\\ud800"}', "line 2: value contains a lone surrogate, which cannot be encoded"),
        ('{"key": {"\\udc00": 1}}', "line 2: key contains a lone surrogate, which cannot be encoded"),
        ('{"headers": {"a": "\\ud800"}}', "line 2: a header contains a lone surrogate, which cannot be encoded"),
        (
            '{"headers": {"\\ud800": "a"}}',
            "line 2: the name of a header contains a lone surrogate, which cannot be encoded",
        ),
        ('{"headers": [["a", {"base64": "?"}]]}', "line 2: the base64 of a header is not base64"),
        ('{"headers": [["a"]]}', "line 2: headers are an object, or a list of [name, value]"),
        ('{"headers": 7}', "line 2: headers are an object, or a list of [name, value]"),
        ('{"headers": [[7, "a"]]}', "line 2: the name of a header is 7, not a text"),
        (f'{{"timestamp": {2**64}}}', f"line 2: timestamp is {2**64}, which has more than 64 bits"),
        (f'{{"partition": {2**64}}}', f"line 2: partition is {2**64}, which has more than 64 bits"),
    ],
)
def test_an_invalid_record_is_reported_with_its_line(millstream: Run, line: str, message: str) -> None:
    millstream("topics", "create", "orders")
    result = millstream("produce", "orders", "--format", "json", given=f'{{"value": 1}}\n{line}\n')
    assert (result.code, result.out) == (1, "")
    assert result.err == f"written to orders before the error: 1\nerror: {message}\n"


@pytest.mark.parametrize(
    ("serde", "line"),
    [
        ("long", f'{{"value": {2**63}}}'),
        ("long", '{"value": "7"}'),
        ("long", '{"value": [1]}'),
        ("double", '{"value": "wide"}'),
        ("double", f'{{"value": {10**400}}}'),
        ("uuid", '{"value": "not one"}'),
        ("uuid", '{"value": 7}'),
        ("windowed:long:1m", '{"value": {"key": 1, "start": "a", "end": "b"}}'),
        ("windowed:long:1m", '{"value": {"key": 1}}'),
        ("json", '{"value": "\\ud800"}'),
    ],
)
def test_a_value_that_the_serde_cannot_serialize_is_reported_with_its_line(
    millstream: Run, serde: str, line: str
) -> None:
    millstream("topics", "create", "orders")
    result = millstream("produce", "orders", "--format", "json", "--value-serde", serde, given=f"{line}\n")
    assert result.code == 1
    assert result.err.startswith("error: line 1, value: ")
    assert len(result.err) < 400


def test_json_on_the_command_line_is_validated(millstream: Run) -> None:
    millstream("topics", "create", "orders")
    for typed, reason in (("NaN", "JSON has no NaN"), ("[" * 100_000, "it is nested too deeply")):
        result = millstream("produce", "orders", "--value-serde", "json", given=f"1\n{typed}\n")
        assert result.code == 1
        assert reason in result.err
        assert "line 2, value: " in result.err
        assert len(result.err) < 400


def test_windowed_keys_survive_a_round_trip(millstream: Run, data: Path) -> None:
    key = time_windowed(STRING, 60_000).serialize(Windowed("north", 60_000, 120_000))
    millstream("topics", "create", "orders")
    line = '{"key": {"key": "north", "start": 60000, "end": 120000}, "value": "x"}\n'
    millstream("produce", "orders", "--format", "json", "--key-serde", "windowed:text:1m", given=line)
    with open_log(data) as log:
        assert stored(log, "orders")[0][3] == key
