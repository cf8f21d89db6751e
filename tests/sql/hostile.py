"""Random and mutated statements, executed against a catalogue with sources and columns of all types.

As a program, it executes many of them, prints what became of them, and fails if one raises anything but an error of
SQL, or takes more than 100 ms of the processor; another number is the seed:

    python tests/sql/hostile.py 100000
    python tests/sql/hostile.py 100000 7
"""

from __future__ import annotations

import functools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from millstream.errors import SqlError
from millstream.sql.functions import builtin_catalogue
from millstream.sql.functions.catalogue import ScalarFunction
from millstream.sql.functions.patterns import Composite, Exactly, LambdaPattern, Pattern, UnitPattern
from millstream.sql.functions.signatures import Signature
from millstream.sql.statements.session import Session
from millstream.sql.syntax import parse_script
from millstream.sql.testing.local import LocalEngine

_COLUMNS = (
    "i INT, l BIGINT, d DOUBLE, n DECIMAL(8, 3), b BOOLEAN, s STRING, y BYTES, dt DATE, tm TIME, ts TIMESTAMP, "
    "xs ARRAY<INT>, ss ARRAY<STRING>, deep ARRAY<ARRAY<STRUCT<a INT>>>, m MAP<STRING, INT>, mm MAP<STRING, "
    "MAP<STRING, DOUBLE>>, o STRUCT<a INT, b STRUCT<c STRING>, `Q` ARRAY<BIGINT>>"
)
CATALOGUE = f"""
CREATE TYPE point AS STRUCT<x INT, y INT>;
CREATE STREAM st (k STRING KEY, {_COLUMNS})
    WITH (kafka_topic='st', value_format='JSON', partitions=4);
CREATE STREAM other (k STRING KEY, i INT, s STRING, p point)
    WITH (kafka_topic='other', value_format='AVRO', partitions=4);
CREATE STREAM nokey (i INT, s STRING)
    WITH (kafka_topic='nokey', value_format='DELIMITED', partitions=2);
CREATE STREAM heads (k INT KEY, v INT, h BYTES HEADER('h'))
    WITH (kafka_topic='heads', value_format='PROTOBUF', partitions=4);
CREATE STREAM win (k STRING KEY, v INT)
    WITH (kafka_topic='win', value_format='JSON', window_type='TUMBLING', window_size='5 SECONDS', partitions=4);
CREATE TABLE ta (k STRING PRIMARY KEY, {_COLUMNS})
    WITH (kafka_topic='ta', format='JSON', partitions=4);
CREATE TABLE two (a INT PRIMARY KEY, b STRING PRIMARY KEY, v INT)
    WITH (kafka_topic='two', format='JSON', partitions=4);
CREATE SOURCE TABLE fixed (k STRING PRIMARY KEY, v INT)
    WITH (kafka_topic='fixed', value_format='JSON', partitions=4);
CREATE STREAM copied AS SELECT * FROM st;
CREATE TABLE counts AS SELECT s, COUNT(*) AS n FROM st WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY s;
"""
SEEDS = (
    """CREATE OR REPLACE STREAM x (k STRING KEY, v STRUCT<a ARRAY<INT>, b MAP<STRING, DECIMAL(4, 2)>>,
        h BYTES HEADER('x'))
        WITH (kafka_topic='x', format='JSON', wrap_single_value=false, timestamp='v', key_delimiter='SPACE');""",
    """CREATE TABLE x AS SELECT k, i, COUNT(*) AS n, SUM(l) + 1 FROM st WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR,
        GRACE PERIOD 2 HOURS) WHERE i > 3 GROUP BY k, i HAVING COUNT(*) > 1 EMIT FINAL;""",
    """CREATE STREAM x WITH (key_format='JSON') AS SELECT a.k, a.i, b.s AS t FROM st a LEFT JOIN other b
        WITHIN (1 DAY, 2 HOURS) GRACE PERIOD 1 SECOND ON a.k = b.k EMIT CHANGES;""",
    "CREATE STREAM x AS SELECT st.k, ta.s, ta.o->b->c FROM st JOIN ta ON st.k = ta.k;",
    "CREATE TABLE x AS SELECT l.*, r.v FROM ta l JOIN two r ON l.i = r.a;",
    "CREATE STREAM x AS SELECT CASE WHEN i > 1.5e3 THEN 'x''y' ELSE s END AS c, k FROM st PARTITION BY i + 1;",
    """CREATE STREAM x AS SELECT k, EXPLODE(xs) AS e, TRANSFORM(m, (a, c) => a, (a, c) => c + 1) FROM st
        WHERE i NOT IN (1);""",
    """CREATE STREAM x AS SELECT k, CAST(n AS DECIMAL(3, 1)), o->*, deep[1][2]->a FROM st
        WHERE s LIKE 'a%' ESCAPE '!';""",
    """CREATE STREAM x AS SELECT k, ARRAY[1, '2', 3.5] AS arr, MAP('a' := STRUCT(x := i)) AS m2 FROM st
        WHERE ROWTIME > '2020-01-01';""",
    """CREATE TABLE x AS SELECT k, LATEST_BY_OFFSET(i, 2, true) AS l, COLLECT_LIST(s) AS cl, TOPK(d, 2) AS t FROM st
        GROUP BY k;""",
    "INSERT INTO other SELECT k, i, s, STRUCT(x := i, y := 2) AS p FROM st;",
    "DROP STREAM IF EXISTS copied DELETE TOPIC;",
    "ALTER STREAM other ADD COLUMN z ARRAY<INT>;",
    "SET 'auto.offset.reset'='earliest'; DEFINE v = 'x'; CREATE STREAM ${v} AS SELECT * FROM st;",
)
_LEAVES = {
    "INT": ("i", "1", "-7", "o->a", "xs[1]", "m['a']", "deep[1][1]->a", "ROWPARTITION"),
    "BIGINT": ("l", "2147483648", "o->`Q`[1]", "ROWTIME"),
    "DOUBLE": ("d", "1e3", "mm['a']['b']"),
    "DECIMAL(8, 3)": ("n", "12.345", "-0.001"),
    "STRING": ("s", "k", "'text'", "'2020-01-01'", "''", "ss[1]", "o->b->c"),
    "BOOLEAN": ("b", "TRUE", "FALSE"),
    "BYTES": ("y", "CAST('YQ==' AS BYTES)"),
    "DATE": ("dt", "CAST('2020-01-01' AS DATE)"),
    "TIME": ("tm", "CAST('10:00' AS TIME)"),
    "TIMESTAMP": ("ts", "CAST('2020-01-01T10:00' AS TIMESTAMP)"),
    "ARRAY<INT>": ("xs", "ARRAY[1, NULL]"),
    "ARRAY<STRING>": ("ss", "ARRAY['a', 'b']"),
    "MAP<STRING, INT>": ("m", "MAP('a' := 1)"),
    "STRUCT<a INT>": ("deep[1][1]", "STRUCT(a := 1)"),
}
_WRONG = (
    "NULL",
    "WINDOWSTART",
    "h",
    "p",
    "q",
    "v",
    "a.i",
    "st.s",
    "unknown",
    "DAYS",
    "o->*",
    "COUNT(*)",
    "EXPLODE(xs)",
    "SUM(i)",
)
_JUNK = "()[]<>,;:='\"`$@{}.-+*/!é\x00\n 1e_"


class Hostile:
    """Makes statements, and executes each against the same catalogue.

    Attributes:
        chance: Decides what the statements are.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._engine = LocalEngine({})
        for statement in parse_script(CATALOGUE):
            self._engine.execute(statement)
        catalog = self._session.catalog
        self._before = dict(catalog.sources), dict(catalog.types), dict(catalog.queries), dict(self._session.properties)
        self._functions: dict[str, list[tuple[str, Signature]]] = {}
        self._others: dict[str, list[tuple[str, Signature]]] = {}
        self._groups = False
        for function in builtin_catalogue():
            plain = isinstance(function, ScalarFunction)
            for signature in function.signatures:
                result = "INT" if signature.result is None else self._named(signature.result, {})
                known = self._functions if plain else self._others
                known.setdefault(result, []).append((function.name, signature))

    @property
    def _session(self) -> Session:
        return self._engine.session

    def execute(self, text: str) -> SqlError | None:
        """Parses, binds, plans and lowers; returns the error of SQL, if it ends with one. Others are raised."""
        catalog = self._session.catalog
        sources, types, queries, properties = self._before
        catalog.sources, catalog.types, catalog.queries = dict(sources), dict(types), dict(queries)
        self._session.properties = dict(properties)
        try:
            for statement in parse_script(text):
                self._engine.execute(statement)
        except SqlError as error:
            str(error.mark(text))
            return error
        return None

    def statements(self) -> Iterator[str]:
        """Yields statements: changed ones, and new ones with random expressions."""
        while True:
            yield self.mutated() if self.chance.random() < 0.5 else self.statement()

    # ----- statements that are changed -------------------------------------------------------------------------------

    def mutated(self) -> str:
        """Returns a statement with parts removed, doubled, or taken from others."""
        text = self.chance.choice(SEEDS)
        change = self._tokens if self.chance.random() < 0.5 else self._characters
        for _ in range(self.chance.randint(1, 4)):
            text = change(text)
        return text

    def _characters(self, text: str) -> str:
        start = self.chance.randrange(len(text) + 1)
        other = self.chance.choice(SEEDS)
        cut = self.chance.randrange(len(other))
        insertion = self.chance.choice(["", other[cut : cut + self.chance.randint(1, 20)], self.chance.choice(_JUNK)])
        return text[:start] + insertion + text[start + self.chance.randint(0, 12) :]

    def _tokens(self, text: str) -> str:
        words = text.split(" ")
        index = self.chance.randrange(len(words))
        others = self.chance.choice(SEEDS).split(" ")
        words[index : index + self.chance.randint(0, 2)] = self.chance.choice(
            [[], [self.chance.choice(others)], [self.expression(2)], others[: self.chance.randint(1, 5)]]
        )
        return " ".join(words)

    # ----- new statements --------------------------------------------------------------------------------------------

    def statement(self) -> str:
        """Returns a statement with random expressions."""
        pick, expression = self.chance.choice, self.expression
        source = pick([*["st"] * 10, "st a", "ta", "ta", "other", "nokey", "heads", "win", "two", "fixed", "counts"])
        self._groups = self.chance.random() < 0.25
        items = ", ".join(expression(3) + pick(["", f" AS c{index}"]) for index in range(self.chance.randint(1, 4)))
        self._groups, grouped = False, self._groups
        key = pick([*["k, "] * 9, "", "*, ", "a.k, "])
        where = f" WHERE {self._of('BOOLEAN', 3)}" if self.chance.random() < 0.4 else ""
        group = f" GROUP BY {pick(['k', 'k', 'k, i', expression(2)])}" if grouped else ""
        partition = f" PARTITION BY {expression(2)}" if self.chance.random() < 0.1 else ""
        having = f" HAVING {self._of('BOOLEAN', 2)}" if group and self.chance.random() < 0.3 else ""
        window = pick(["", "", " WINDOW TUMBLING (SIZE 1 HOUR)", " WINDOW SESSION (5 SECONDS)"]) if group else ""
        join = ""
        if self.chance.random() < 0.15:
            kind, right = pick(["", "LEFT ", "FULL OUTER ", "RIGHT "]), pick(["ta", "other", "two", "win", "st z"])
            within = pick(["", " WITHIN 1 HOUR", " WITHIN 1 HOUR GRACE PERIOD 1 MINUTE"])
            one, other = pick(["st.k", expression(1)]), pick([f"{right}.k", expression(1)])
            join = f" {kind}JOIN {right}{within} ON {one} = {other}"
        query = f"SELECT {key}{items} FROM {source}{join}{window}{where}{group}{partition}{having}"
        options = pick(["", "", " WITH (value_format='AVRO')", " WITH (key_format='JSON', value_format='DELIMITED')"])
        kind = "TABLE" if group or source in ("ta", "two", "fixed", "counts") else "STREAM"
        return f"CREATE {kind if self.chance.random() < 0.95 else pick(['TABLE', 'STREAM'])} x{options} AS {query};"

    def expression(self, depth: int) -> str:
        """Returns an expression of a random type; some are wrong."""
        return self._of(self.chance.choice(list(_LEAVES)), depth)

    def _of(self, type_: str, depth: int) -> str:
        """Returns an expression of a type, or, now and then, of another one."""
        pick = self.chance.choice
        if self.chance.random() < 0.01:
            type_ = pick([*_LEAVES, "nope"])
        if depth <= 0 or self.chance.random() < 0.2:
            return pick(_LEAVES.get(type_) or (f"CAST(NULL AS {type_})", *_WRONG))
        inner = functools.partial(self._of, depth=depth - 1)
        forms = [
            lambda: f"CAST({inner(pick(list(_LEAVES)))} AS {type_})",
            lambda: f"CASE WHEN {inner('BOOLEAN')} THEN {inner(type_)} ELSE {pick(['NULL', inner(type_)])} END",
            lambda: f"COALESCE({inner(type_)}, {inner(type_)})",
            lambda: f"ARRAY[{inner(type_)}, {inner(type_)}][{inner('INT')}]",
            lambda: f"MAP('a' := {inner(type_)})[{inner('STRING')}]",
            lambda: f"STRUCT(a := {inner(type_)}, b := {inner(pick(list(_LEAVES)))})->a",
            lambda: f"REDUCE({inner('ARRAY<INT>')}, {inner(type_)}, (q{depth}, r{depth}) => {inner(type_)})",
        ]
        functions = [*self._functions.get(type_, ()), *(self._others.get(type_, ()) if self._groups else ())]
        forms += [functools.partial(self._call, function, depth) for function in functions]
        if type_ in ("INT", "BIGINT", "DOUBLE", "DECIMAL(8, 3)"):
            forms += [lambda: f"({inner(type_)} {pick('+-*/%')} {inner(type_)})", lambda: f"- {inner(type_)}"] * 2
        if type_ == "BOOLEAN":
            forms += [functools.partial(self._condition, depth - 1)] * 8
        if type_ == "STRING":
            forms += [lambda: f"({inner('STRING')} {pick(['+', '||'])} {inner('STRING')})"] * 2
        return pick(forms)()

    def _condition(self, depth: int) -> str:
        pick, type_ = self.chance.choice, self.chance.choice(list(_LEAVES))
        one, other = self._of(type_, depth), self._of(type_, depth)
        return pick(
            [
                f"({one} {pick(['=', '<>', '<', '>=', 'IS DISTINCT FROM'])} {other})",
                f"({self._of('BOOLEAN', depth)} {pick(['AND', 'OR'])} {self._of('BOOLEAN', depth)})",
                f"(NOT {self._of('BOOLEAN', depth)})",
                f"({one} {pick(['', 'NOT '])}IN ({other}, NULL, {self._of(type_, depth)}))",
                f"({one} BETWEEN {other} AND {other})",
                f"({one} IS {pick(['', 'NOT '])}NULL)",
                f"({self._of('STRING', depth)} LIKE {self._of('STRING', depth)})",
                f"({self._of('STRING', depth)} LIKE {self._of('STRING', depth)} ESCAPE '!')",
                f"({self._of('STRING', depth)} LIKE '{pick(['!', 'a!%', '%!'])}' ESCAPE '!')",
            ]
        )

    def _call(self, call: tuple[str, Signature], depth: int) -> str:
        name, signature = call
        count = max(
            0, len(signature.parameters) + (self.chance.randint(-1, 2) if signature.variadic is not None else 0)
        )
        parameters = signature.spread(count) or signature.parameters
        binding: dict[str, str] = {}
        return f"{name}({', '.join(self._argument(parameter.pattern, binding, depth - 1) for parameter in parameters)})"

    def _argument(self, pattern: Pattern, binding: dict[str, str], depth: int) -> str:
        if isinstance(pattern, LambdaPattern):
            names = [f"q{depth}{letter}" for letter in "abc"[: len(pattern.inputs)]]
            body = self.chance.choice([*names, self._argument(pattern.result, binding, depth)])
            return f"({', '.join(names)}) => {body}"
        if isinstance(pattern, UnitPattern):
            return self.chance.choice(["DAYS", "MINUTE", "'DAYS'"])
        return self._of(self._named(pattern, binding), depth)

    def _named(self, pattern: Pattern, binding: dict[str, str]) -> str:
        if isinstance(pattern, Composite):
            parts = [self._named(part, binding) for part in pattern.parts]
            names = [f"`{name}` " for name in pattern.names] or [""] * len(parts)
            return f"{pattern.kind}<{', '.join(map(str.__add__, names, parts))}>"
        if isinstance(pattern, Exactly):
            return {"INTEGER": "INT"}.get(str(pattern.type), str(pattern.type).replace("INTEGER", "INT"))
        return binding.setdefault(str(pattern), "DECIMAL(8, 3)" if str(pattern) == "DECIMAL" else self._plain())

    def _plain(self) -> str:
        return self.chance.choice(["INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DATE"])


LIMIT = 0.1
"""The longest processor time of a statement, in seconds."""


def main(count: int, seed: int) -> int:
    """Executes statements, and prints what became of them; returns how many were too slow, or raised another error."""
    hostile, outcomes, failures = Hostile(seed), Counter[str](), 0
    slowest: list[tuple[float, str]] = []
    statements = hostile.statements()
    for _ in range(count):
        text = next(statements)
        outcome, seconds = timed(hostile, text)
        if seconds > LIMIT:  # once more: a collection of garbage may have been the reason
            seconds = min(seconds, timed(hostile, text)[1])
        if seconds > LIMIT:
            outcome = f"SLOW {outcome}"
        if outcome.startswith(("SLOW", "TRACEBACK")):
            failures += 1
            print(f"{outcome}, {seconds * 1000:.1f} ms\n    {text}", file=sys.stderr)
        outcomes[outcome.partition(":")[0]] += 1
        slowest = sorted([*slowest, (seconds, text)], reverse=True)[:3]
    print(f"{count} statements, seed {seed}, at most {LIMIT * 1000:.0f} ms each")
    for outcome, number in outcomes.most_common():
        print(f"{number:>8} {outcome}")
    for seconds, text in slowest:
        print(f"{seconds * 1000:>8.1f} ms {text[:160]!r}")
    return failures


def timed(hostile: Hostile, text: str) -> tuple[str, float]:
    """Executes a statement; returns what became of it, and the processor time in seconds."""
    start = time.process_time()
    try:
        error = hostile.execute(text)
        outcome = "accepted" if error is None else type(error).__name__
    except Exception as raised:  # noqa: BLE001  (the purpose of the program)
        outcome = f"TRACEBACK {type(raised).__name__}: {raised}"
    return outcome, time.process_time() - start


if __name__ == "__main__":
    number = int(sys.argv[1])
    sys.exit(bool(main(number, int(sys.argv[2]) if len(sys.argv) > 2 else number)))
