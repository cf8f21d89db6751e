"""Results of records that are in the log before the start do not depend on the cut into batches, or on restarts.

Random topologies with one to three exchanges process random records. All records are in the log before the start. The
batches have random sizes. The application stops, crashes at a failpoint and starts again in between, and builds its
tasks anew for some of the batches. It has 1, 2, 4 or 8 tasks. The test compares the output of each key in order (values
and timestamps) and the rows of the stores with two references:

- *The test driver* with one partition, into which the same records are piped in the order of positions: the running
  maximum of the timestamps of the partition, the ordinal of the partition, the offset.
- *Another run with as many tasks*: either a live run, which gets the records one by one in the order of positions and
  processes each before the next, or a run that reads the whole log in one batch.

The comparison with another run is strict for all results that do not depend on the order inside a cycle of internal
topics, which is not promised. A foreign-key join has such a cycle. So has a stream that is merged or joined with
records of its own that went through an exchange. Of results behind a cycle, the values of the final rows are compared,
if they do not depend on that order: counts, sums and joins of tables.

The driver has one task for all keys and sub-topologies. So results that depend on the order between keys may differ.
`facts` tells which ones, operator by operator. With one task, the comparison with the driver is strict, except for the
following:

- Results behind a cycle: as above.
- Results in which several records with one origin meet in another order than in the driver (*disordered*). Records with
  one origin have one position. Tasks take them by topic, partition and offset, the driver takes them by timestamp. The
  values of the final rows are compared, if they do not depend on the order.
- Results behind a punctuator: it runs by the stream time of its sub-topology, and in the driver by the stream time of
  all sub-topologies together. Only the comparison with the other run covers them.

With several tasks, results that depend on stream time (closed windows, grace periods, suppressed rows, unmatched
records of outer joins) are compared with the other run only, because the stream time of a task depends on the keys that
share it. With a grace period that no record exceeds, windows and inner joins do not depend on it, and are compared with
the driver, too.

Where the key was changed behind the last exchange, or operators without state merged several topics, several tasks
write records of one key: these records, and those without a key, are compared in any order.

Not generated: wall-clock time, global tables, topics that the application both writes and reads, patterns of topics.

By default 20 applications run, with 2 or 4 topologies each. To run more, set the environment variable
``MILLSTREAM_REPLAYS`` to their number, and ``MILLSTREAM_REPLAYS_FROM`` to the first seed:

    MILLSTREAM_REPLAYS=4000 pytest tests/property/test_replays.py -m 'not spark'

A failing case is made smaller, and printed as an argument of `replaying.check`. Cases that showed a defect are in
`test_replay_cases`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.property import functions, topologies
from tests.property.generation import Case, generate
from tests.property.minimising import minimise
from tests.property.replaying import (
    UNCUT,
    application,
    check,
    compare_runs,
    compare_with_driver,
    fill,
    read_results,
    run_cut,
)

from millstream.log import open_log

CASES = int(os.environ.get("MILLSTREAM_REPLAYS", "20"))
FIRST = int(os.environ.get("MILLSTREAM_REPLAYS_FROM", "0"))
PARTS = 10
"""Parts of the cases, which can run in parallel."""


@pytest.mark.parametrize("part", [pytest.param(n, marks=pytest.mark.slow) if n % 2 else n for n in range(PARTS)])
@pytest.mark.timeout(300 + 3 * CASES)
def test_results_in_process_do_not_depend_on_cuts_and_restarts(part: int) -> None:
    for seed in range(FIRST + part, FIRST + CASES, PARTS):
        # Topologies that share an application share the cost of its batches. A live run has many of them.
        live = seed % 4 == 0
        check_or_minimise(generate(seed, members=2 if live else 4), live=live)


def check_or_minimise(case: Case, *, live: bool) -> None:
    """Checks a case; prints a small one, if it fails."""
    try:
        check(case, live=live)
    except Exception as error:
        kind = type(error)

        def fails(smaller: Case) -> bool:
            try:
                check(smaller, live=live)
            except kind:
                return True
            except Exception:  # noqa: BLE001  (another failure is not the one to make small)
                return False
            return False

        small = minimise(case, fails)
        print(f"check({small!r}, live={live})")
        check(small, live=live)
        raise


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_results_on_spark_are_those_of_the_driver_and_of_a_run_in_process(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    for module in (functions, topologies):  # Spark's workers cannot import them
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    made = generate(1, members=24)
    case = Case(made.members, 2, UNCUT)
    size = sum(len(member.records) for member in case.members) // 3
    directory = str(tmp_path)
    with open_log(directory) as log:
        fill(log, case)
    app = application(case, directory, **{"max.batch.records": size, "min.batch.records": 1})
    app.run(until_caught_up=True)
    results = read_results(case, directory)
    differences = compare_with_driver(case, results) + compare_runs(case, run_cut(case, UNCUT), results)
    assert not differences, "\n".join(differences)
