"""Compares the runtime on Spark with Spark's own operators that do the same work, in one run.

    python bench/bench_runtime.py [--only keyed-count,small-batch] [--scale 0.1] [--json FILE]

Scale 1 has the sizes for which figures are asked: it takes an hour or so. All run in one Spark, one after the other,
with all cores; rates are those of committed input between 15 % and 95 % of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.exchange_cases import exchange_latency, exchanges
from bench.latency_cases import produce_to_visible, small_batch
from bench.measuring import Figure, machine, show
from bench.partition_cases import partitions
from bench.running import Bench
from bench.schema_cases import schema_count
from bench.state_cases import checkpoint_size, first_result, large_state, restart
from bench.throughput_cases import keyed_count, stream_table_join, table_table_join, windowed_count

from millstream.runtime.spark.session import cores_of

CASES: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "keyed-count": keyed_count,
    "schema-count": schema_count,
    "windowed-count": windowed_count,
    "stream-table-join": stream_table_join,
    "table-table-join": table_table_join,
    "exchanges": exchanges,
    "exchange-latency": exchange_latency,
    "small-batch": small_batch,
    "partitions": partitions,
    "produce-to-visible": produce_to_visible,
    "large-state": large_state,
    "restart": restart,
    "checkpoint-size": checkpoint_size,
}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CASES:
            raise argparse.ArgumentTypeError(f"there is no case {name!r}: {', '.join(CASES)}")
    return names


def main() -> int:
    """Measures, prints, and optionally writes JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", type=_names, default=list(CASES), help=f"some of: {', '.join(CASES)}")
    options.add_argument("--scale", type=float, default=0.05)
    options.add_argument("--json", type=Path)
    options.add_argument("--directory", help="the directory of logs and checkpoints; the figures depend on its disk")
    options.add_argument("--first-result", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.first_result is not None:
        first_result(arguments.first_result)
        return 0
    about = machine()
    print(f"scale {arguments.scale:g}; {show(about)}", flush=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-", ignore_cleanup_errors=True) as directory:
        bench = Bench(Path(directory), arguments.scale, 1)
        bench.tasks = max(2, cores_of(bench.session()))
        for name in arguments.only:
            print(f"\n{name}", flush=True)
            for figure in CASES[name](bench):
                print(figure, flush=True)
                figures.append(figure)
    about["load at the end"] = machine()["load"]
    print(f"\nload {show(about['load at the end'])}")
    if arguments.json:
        data = {"scale": arguments.scale, "machine": about, "figures": [figure.data() for figure in figures]}
        arguments.json.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
