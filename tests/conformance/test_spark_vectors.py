"""The vectors give the same results on the runtime, with and without Spark, as in the test driver.

There are three exceptions, because the test driver runs several sub-topologies as one task.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import vectors
from tests.conformance.interpreter import options_of
from tests.conformance.spark_runner import (
    Vector,
    exchanges,
    input_topics,
    is_eligible,
    run_in_driver,
    run_vectors,
)

REORDERED = {"repartition/queues_tie_3", "repartition/queues_tie_6"}
"""Records with equal timestamps reach one task through several exchanges.

The driver takes them in the order of Kafka Streams' binary heap, the runtime by topic, so that the cut into batches
does not matter.
"""

OTHER_STREAM_TIME = {"repartition/queues_by_time_3"}
"""A processor behind exchanges shows the stream time of its task. In the driver, all sub-topologies share one."""

FAMILIES = sorted(path.stem for path in vectors.FOLDER.glob("*.jsonl"))
COUNT_OF_ELIGIBLE = 600
SHORT = 20


def eligible(family: str | None = None) -> list[Vector]:
    """The vectors that can run in one application: eligible, and without an error."""
    return [vector for vector in vectors.load(family) if is_eligible(vector) and "error" not in vector]


def sample() -> list[Vector]:
    """Every second one of the vectors with at most `SHORT` inputs: about a third of all."""
    return [vector for vector in eligible() if len(vector["inputs"]) <= SHORT][1::2]


def family_of(vector: Vector) -> str:
    return str(vector["name"]).partition("/")[0]


def has_state_of_its_own(vector: Vector) -> bool:
    """Whether a processor has state outside of its stores."""
    return any(node.get("processor") == "ticker" for node in vector["topology"])


def expected(vector: Vector) -> Vector:
    """The expected results of a vector if each sub-topology is a task."""
    if vector["name"] not in OTHER_STREAM_TIME:
        return vector
    latest = -1

    def retimed(record: dict[str, Any]) -> dict[str, Any]:
        nonlocal latest
        latest = max(latest, record["ts"])
        where, at, _time = record["value"].partition("@")
        return {**record, "value": f"{where}@{latest}"} if at else record

    return {**vector, "outputs": [[retimed(record) for record in step] for step in vector["outputs"]]}


def in_one_step(vector: Vector) -> Vector:
    """The vector with all its inputs in one step."""
    together = [record for step in vector["outputs"] for record in step]
    return {**vector, "inputs": [vector["inputs"]], "outputs": [together]}


def in_any_order(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the outputs of each step sorted."""
    return {**result, "outputs": [sorted(step, key=vectors.text) for step in result["outputs"]]}


def check(vector: Vector, got: dict[str, Any], *, at_once: bool = False) -> None:
    """Asserts that a vector gave the expected results, and dropped as many records as in the driver."""
    wanted = in_one_step(expected(vector)) if at_once else expected(vector)
    if vector["name"] in REORDERED:
        assert exchanges(vector) > 1
        wanted, got = in_any_order(wanted), in_any_order(got)
    try:
        vectors.check(wanted, got)
    except AssertionError as error:
        error.add_note(f"in vector {vector['name']}")
        raise
    assert got["dropped"] == run_in_driver(vectors.question(vector))["dropped"], vector["name"]


def run(chosen: list[Vector], *args: Any, **options: Any) -> list[dict[str, Any]]:
    """Runs vectors without their expected results."""
    return run_vectors([vectors.question(vector) for vector in chosen], *args, **options)


# ----- without Spark -------------------------------------------------------------------------------------------------


def test_the_sample_has_every_family_operator_and_configuration() -> None:
    chosen, every = sample(), eligible()
    assert len(every) == COUNT_OF_ELIGIBLE
    assert len(chosen) > COUNT_OF_ELIGIBLE / 4
    assert {family_of(vector) for vector in chosen} == set(FAMILIES)
    assert operators(chosen) == operators(every)
    assert configurations(chosen) == configurations(every)


def operators(chosen: list[Vector]) -> set[str]:
    return {node["op"] for vector in chosen for node in vector["topology"]}


def configurations(chosen: list[Vector]) -> set[str]:
    return {vectors.text(options_of(vector)) for vector in chosen}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_step_by_step(family: str) -> None:
    """The inputs are written one after the other."""
    chosen = eligible(family)
    for vector, got in zip(chosen, run(chosen, "local"), strict=True):
        check(vector, got)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_tasks_that_are_rebuilt_for_each_batch_give_the_same_results(family: str) -> None:
    """The stored state of a task is complete. `test_paged` loads the stores of all vectors again after each step."""
    chosen = [v for v in sample() if family_of(v) == family and not has_state_of_its_own(v)]
    assert chosen
    for vector, got in zip(chosen, run(chosen, "local", cold=True), strict=True):
        check(vector, got)


def runs_at_once(vector: Vector) -> bool:
    """Whether the log determines the order of a vector's inputs: they are in one topic."""
    return len(input_topics(vector)) == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_inputs_that_exist_at_the_start_give_the_same_results_for_any_cut_into_batches(family: str) -> None:
    """Batches have one to five records of each topic, by random choice."""
    chosen = [vector for vector in eligible(family) if runs_at_once(vector)]
    for vector, got in zip(chosen, run(chosen, "local", at_once=True, seed=len(chosen)), strict=True):
        check(vector, got, at_once=True)


def can_be_cut(vector: Vector) -> bool:
    """Whether the log alone determines the order in which records that exist at the start are joined."""
    sinks = {node["topic"] for node in vector["topology"] if node["op"] == "to"}
    tables = any(node["op"] == "global_table" for node in vector["topology"])
    # The rows of an aggregation depend on all results of a foreign-key join, not on the last ones alone.
    grouped = has_foreign_key_join(vector) and any("group" in node["op"] for node in vector["topology"])
    return not tables and not grouped and not sinks & input_topics(vector)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_the_cut_of_several_topics_into_batches_changes_no_result(family: str) -> None:
    """Tasks take records in the order of timestamps, whichever batches contain them, behind any number of exchanges.

    Of a foreign-key join only the last result of each key is compared: subscriptions and answers form a cycle.
    """
    chosen = [v for v in eligible(family) if len(input_topics(v)) > 1 and can_be_cut(v)]
    whole = run(chosen, "local", at_once=True)
    for vector, wanted, got in zip(chosen, whole, run(chosen, "local", at_once=True, seed=1), strict=True):
        compared = last_results if has_foreign_key_join(vector) else vectors.text
        assert compared(got) == compared(wanted), vector["name"]


def has_foreign_key_join(vector: Vector) -> bool:
    return any(node["op"] == "fk_join" for node in vector["topology"])


def last_results(result: dict[str, Any]) -> dict[str, Any]:
    """The last record of each key in each topic, and the stores."""
    records = [record for step in result["outputs"] for record in step]
    last = {vectors.text([record["topic"], record["key"]]): record["value"] for record in records}
    return {"last": {key: value for key, value in last.items() if value is not None}, "stores": result["stores"]}


FAILING = [vector for vector in vectors.load() if is_eligible(vector) and "error" in vector]


@pytest.mark.parametrize("vector", FAILING, ids=[vector["name"] for vector in FAILING])
def test_a_vector_that_fails_does_so_at_the_same_step(vector: Vector) -> None:
    """Each vector runs in a separate application."""
    (got,) = run([vector], "local")
    vectors.check(vector, got)
    assert got["outputs"] == vector.get("outputs", [])


def test_only_the_listed_vectors_differ() -> None:
    """The expected results in these vectors differ from those of the runtime."""
    chosen = [vector for vector in eligible("repartition") if vector["name"] in REORDERED | OTHER_STREAM_TIME]
    assert len(chosen) == len(REORDERED | OTHER_STREAM_TIME)
    for vector, got in zip(chosen, run(chosen, "local"), strict=True):
        with pytest.raises(AssertionError, match="step 0"):
            vectors.check(vector, got)


def test_a_topic_chosen_by_each_record() -> None:
    """No vector covers this."""
    vector: Vector = {
        "topology": [
            {"id": "s", "op": "stream", "topics": ["in"], "key": "string", "value": "long"},
            {"op": "to", "from": "s", "topic_expr": ["concat", ["lit", "to-"], "key"]},
        ],
        "inputs": [{"topic": "in", "key": key, "value": 1, "ts": 5} for key in "aba"],
    }
    wanted = run_in_driver(vector)
    assert [record["topic"] for step in wanted["outputs"] for record in step] == ["to-a", "to-b", "to-a"]
    assert run_vectors([vector, vector], "local") == [wanted, wanted]


# ----- on Spark ------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_on_spark_step_by_step() -> None:
    """The sample runs here. All vectors run without Spark in `test_step_by_step`, by the same planner and tasks."""
    chosen = sample()
    for vector, got in zip(chosen, run(chosen), strict=True):
        check(vector, got)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_on_spark_with_all_inputs_before_the_start() -> None:
    """Those with one topic, behind any number of exchanges."""
    chosen = [vector for vector in eligible() if runs_at_once(vector)]
    for vector, got in zip(chosen, run(chosen, at_once=True), strict=True):
        check(vector, got, at_once=True)
