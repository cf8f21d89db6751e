"""Writes the reference from the code: the API from its docstrings, and tables of configuration, errors and drops.

    python docs/generate_reference.py            write the pages
    python docs/generate_reference.py --check    say which pages are out of date, and fail if any is

A name is public when a module of ``NAMESPACES`` lists it in ``__all__``; ``MET`` adds those that people are handed
without importing them. Each module that defines such names has a page, introduced by the module's own docstring; names
and methods keep the order in which the code defines them. The output depends on the code alone: the same pages come out
on every supported Python.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import importlib.util
import inspect
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

from typer.main import get_command

from millstream import errors
from millstream.cli.exits import MEANINGS
from millstream.cli.main import cli
from millstream.config import KEYS, PREFIXES
from millstream.connect.plugins import BUILT_IN as CONNECTOR_TYPES, class_of
from millstream.connect.settings import REQUIRED
from millstream.core.frozen import Frozen
from millstream.expr.catalog import CATALOG
from millstream.serde import Serde
from millstream.serve.failures import RESPONSES
from millstream.serve.observe.alerts.rules import DEFAULTS as DEFAULT_RULES, METRICS as RULE_METRICS
from millstream.serve.observe.families import EVERY as FAMILIES
from millstream.serve.reference import as_markdown
from millstream.serve.web import create_routes
from millstream.sql.catalog.properties import CREATE_AS_PROPERTIES, CREATE_PROPERTIES, INSERT_PROPERTIES
from millstream.sql.definitions import DEFINITIONS
from millstream.sql.formats.declarations import FORMATS, Format
from millstream.sql.functions import builtin_catalogue
from millstream.sql.requests.properties import ACCEPTED, ACCEPTED_TEXT, PROPERTIES, STREAMS_PROPERTIES
from millstream.sql.syntax import tree
from millstream.sql.types import PRIMITIVES

PACKAGE = "millstream"
NAMESPACES = (
    "millstream",
    "millstream.testing",
    "millstream.state.stores",
    "millstream.serde",
    "millstream.log",
    "millstream.registry",
    "millstream.connect",
    "millstream.connect.postgres",
    "millstream.connect.polling",
    "millstream.connect.triggers",
)
MET = (
    ("millstream.engine.errors", "ErrorContext"),
    ("millstream.engine.context", "DroppedRecord"),
    ("millstream.state.spec", "ChangelogRecord"),
    ("millstream.plan.compare", "Change"),
    ("millstream.plan.compare", "Comparison"),
    ("millstream.plan.compare", "compare"),
    ("millstream.plan.fingerprint", "fingerprint"),
    ("millstream.plan.fingerprint", "to_dict"),
    ("millstream.runtime.admin", "migrate"),
    ("millstream.runtime.admin", "reset"),
    ("millstream.runtime.lifecycle", "State"),
)
# Objects that other calls make; how they are made inside is nobody's business.
HANDED_OUT = {
    "Stream",
    "JoinedStream",
    "Table",
    "WindowedTable",
    "GlobalTable",
    "TestInput",
    "TestOutput",
    "Suppressed",
    "Handle",
}
HANDED_OUT |= {"GroupedStream", "WindowedStream", "CogroupedStream", "GroupedTable"}
OUTPUT = Path(__file__).parent / "reference"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
MARK = "<!-- Written by docs/generate_reference.py from the code. Do not edit: run `make docs`. -->"
MAX_SIGNATURE = 100
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Note", "Notes", "Example", "Examples", "See Also")


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A public name: where people import it from, where it is defined, and what it is."""

    name: str
    namespace: str
    module: str
    obj: object

    @property
    def page(self) -> str:
        """The file name of the page that describes it."""
        return self.module.removeprefix(f"{PACKAGE}.").replace(".", "-") + ".md"

    @property
    def line(self) -> int:
        """Where its definition stands in the module."""
        return definitions(self.module).get(self.name, Definition(0, "")).line


@dataclasses.dataclass(frozen=True, slots=True)
class Definition:
    """What only the source knows of a module-level name: its line, and the string below an assignment."""

    line: int
    doc: str


# --- finding names --------------------------------------------------------------------------------------------------


def public_names() -> list[Name]:
    """Returns the public names, by module and then in the order of their definitions."""
    found: dict[str, Name] = {}
    for namespace in NAMESPACES:
        if importlib.util.find_spec(namespace) is None:
            continue
        module = importlib.import_module(namespace)
        for name in getattr(module, "__all__", ()):
            obj = getattr(module, name)
            if not (name.startswith("_") or isinstance(obj, ModuleType)):
                found.setdefault(name, Name(name, namespace, home(name, obj, namespace), obj))
    for namespace, name in MET:
        found.setdefault(name, Name(name, namespace, namespace, getattr(importlib.import_module(namespace), name)))
    return sorted(found.values(), key=lambda each: (each.module, each.line, each.name))


def home(name: str, obj: object, namespace: str) -> str:
    """Returns the module that defines a name; an alias or constant does not know it, so the sources are asked.

    Those inside the namespace come first: there may be an ``INT`` elsewhere, too.
    """
    if inspect.isclass(obj) or inspect.isroutine(obj):
        module = getattr(obj, "__module__", None)
        if module and module.partition(".")[0] == PACKAGE:
            return str(module)
    loaded = [module for module in sys.modules if module.partition(".")[0] == PACKAGE]
    loaded.sort(key=lambda module: (not module.startswith(namespace), module))
    return next((module for module in loaded if name in definitions(module)), namespace)


_definitions: dict[str, dict[str, Definition]] = {}


def definitions(module: str) -> dict[str, Definition]:
    """Returns what a module's source defines at its top level."""
    if module not in _definitions:
        _definitions[module] = dict(_read_definitions(module))
    return _definitions[module]


def _read_definitions(module: str) -> Iterator[tuple[str, Definition]]:
    file = getattr(importlib.import_module(module), "__file__", None)
    if file is None:
        return
    body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    for statement, following in zip_longest(body, body[1:]):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name, Definition(statement.lineno, "")
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            doc = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                doc = following.value.value if isinstance(following.value.value, str) else ""
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, Definition(statement.lineno, doc)


def members(cls: type, public: set[type]) -> Iterator[tuple[str, object]]:
    """Yields the public members of a class, those of bases that have no entry of their own included."""
    seen = set()
    told = {above for base in cls.__mro__[1:] if base in public for above in base.__mro__}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != PACKAGE or base in told:
            continue
        for name, member in vars(base).items():
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, member


# --- rendering ------------------------------------------------------------------------------------------------------


def signature(name: str, function: typing.Any, *, prefix: str = "def ", skip_first: bool = False) -> str:
    """Spells a signature as source code, annotations as they were written.

    >>> def scale(value: int, *, by: float = 2.0) -> float: ...
    >>> signature("scale", scale)
    'def scale(value: int, *, by: float = 2.0) -> float'
    """
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return f"{prefix}{name}(...)"
    parameters = list(found.parameters.values())[1 if skip_first else 0 :]
    parts = list(_parameters(parameters))
    returns = "" if found.return_annotation is found.empty else f" -> {_annotation(found.return_annotation)}"
    line = f"{prefix}{name}({', '.join(parts)}){returns}"
    if len(line) <= MAX_SIGNATURE or not parts:
        return line
    return "\n".join([f"{prefix}{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    star_given = False
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not star_given:
            star_given = True
            yield "*"
        star_given = star_given or parameter.kind is parameter.VAR_POSITIONAL
        yield _parameter(parameter)
        positional = parameter.kind is parameter.POSITIONAL_ONLY
        if positional and (index + 1 == len(parameters) or parameters[index + 1].kind is not parameter.kind):
            yield "/"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
    annotated = parameter.annotation is not parameter.empty
    text = stars + parameter.name + (f": {_annotation(parameter.annotation)}" if annotated else "")
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {_default(parameter.default)}" if annotated else f"{text}={_default(parameter.default)}"


def _annotation(annotation: object) -> str:
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else str(inspect.formatannotation(annotation))


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__name__
    shown = repr(value)
    # Objects that show an address, or a dataclass's factory: the reader only needs to know that there is a default.
    return "..." if shown.startswith("<") or " at 0x" in shown else shown


def markdown(docstring: str | None) -> str:
    r"""Turns a docstring (Google sections, doctests, double backquotes) into Markdown.

    >>> print(markdown("Sums ``n``.\n\nArgs:\n    n: How many.\n        And which.\n"))
    Sums `n`.
    <BLANKLINE>
    **Args**
    <BLANKLINE>
    - `n`: How many. And which.
    """
    blocks: list[str] = []
    section = ""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        lines = paragraph.split("\n")
        header = lines[0].strip().removesuffix(":")
        if lines[0].endswith(":") and not lines[0].startswith(" ") and header in SECTIONS:
            section = header
            blocks.append(f"**{section}**")
            lines = lines[1:]
        elif section and not lines[0].startswith(" "):
            section = ""
        if lines:
            blocks.extend(_blocks(lines, section))
    return "\n\n".join(block for block in blocks if block)


def _blocks(lines: list[str], section: str) -> Iterator[str]:
    if section:
        lines = inspect.cleandoc("\n" + "\n".join(lines)).split("\n")
    first = next((index for index, line in enumerate(lines) if line.lstrip().startswith(">>> ")), len(lines))
    text, example = lines[:first], lines[first:]
    if section in {"Args", "Attributes", "Raises"} and text:
        yield _items(text)
    elif text and all(line.startswith("    ") for line in text):
        yield "```text\n" + inspect.cleandoc("\n" + "\n".join(text)) + "\n```"
    elif text:
        yield _inline("\n".join(text)).removesuffix(":") + (":" if text[-1].endswith(":") else "")
    if example:
        yield "```python\n" + inspect.cleandoc("\n" + "\n".join(example)) + "\n```"


def _items(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line.strip())
    return "\n".join("- " + _inline(re.sub(r"^([*\w.]+)(?: \([^)]*\))?:", r"`\1`:", item)) for item in items)


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


def summary(docstring: str) -> str:
    """Returns the first sentence of a rendered docstring, on one line."""
    first = docstring.partition("\n\n")[0].replace("\n", " ")
    if first.startswith("```"):
        return ""
    return re.split(r"(?<=[.!?])\s", first, maxsplit=1)[0].replace("|", "\\|")


def own_doc(obj: object) -> str:
    """Returns the docstring that was written for an object: not one inherited or made up by a decorator."""
    doc = obj.__dict__.get("__doc__") if inspect.isclass(obj) else getattr(obj, "__doc__", None)
    generated = inspect.isclass(obj) and (doc or "").startswith(f"{obj.__name__}(")
    return "" if generated else markdown(doc)


def describe(name: Name, public: set[type]) -> str:
    """Renders the entry of a public name."""
    parts = [f"## {name.name}"]
    if inspect.isclass(name.obj):
        parts += _class(name, name.obj, public)
    elif callable(name.obj) and inspect.isroutine(name.obj):
        parts += [_code(*_signatures(name.name, name.obj)), own_doc(name.obj)]
    else:
        parts += [_constant_doc(name)]
    return "\n\n".join(part for part in parts if part)


def _constant_doc(name: Name) -> str:
    """The string below an assignment; of a serde that has none, what its class says."""
    written = markdown(definitions(name.module).get(name.name, Definition(0, "")).doc)
    return own_doc(type(name.obj)) if not written and isinstance(name.obj, Serde) else written


def _class(name: Name, cls: type, public: set[type]) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        yield _code(f"class {cls.__name__}(enum.Enum)")
    elif name.name not in HANDED_OUT and (constructor := _constructor(cls)) is not None:
        yield _code(signature(name.name, constructor, prefix="class ").removesuffix(" -> None"))
    else:
        bases = [base.__name__ for base in cls.__bases__ if base in public or issubclass(base, BaseException)]
        yield _code(f"class {name.name}" + (f"({', '.join(bases)})" if bases else ""))
    yield own_doc(cls)
    if issubclass(cls, enum.Enum):
        yield "\n".join(f"- `{member.name}`" for member in cls)
    for member, obj in members(cls, public):
        yield from _member(name.name, member, obj)


def _constructor(cls: type) -> typing.Any:
    """Something with the signature by which objects of a class are made, if it has one of its own."""
    if issubclass(cls, Frozen) and cls._fields:
        made: typing.Any = lambda: None  # noqa: E731
        made.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    field,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=cls._defaults.get(field, inspect.Parameter.empty),
                    annotation=inspect.get_annotations(cls).get(field, inspect.Parameter.empty),
                )
                for field in cls._fields
            ]
        )
        return made
    own = vars(cls).keys() & {"__init__", "__new__"} and not getattr(cls, "_is_protocol", False)
    return cls if own or dataclasses.is_dataclass(cls) else None


def _member(owner: str, name: str, obj: object) -> Iterator[str]:
    if isinstance(obj, property):
        returns = inspect.signature(obj.fget).return_annotation if obj.fget else inspect.Signature.empty
        annotation = "" if returns is inspect.Signature.empty else f": {_annotation(returns)}"
        code = _code(f"{name}{annotation}  # property")
    elif isinstance(obj, classmethod):
        code = _code(*_signatures(name, obj.__func__, decorator="@classmethod\n"))
    elif isinstance(obj, staticmethod):
        code = _code(*_signatures(name, obj.__func__, decorator="@staticmethod\n", skip_first=False))
    elif inspect.isfunction(obj):
        code = _code(*_signatures(name, obj, skip_first=True))
    else:
        return
    yield f"### {owner}.{name}"
    yield code
    yield own_doc(obj)


def _signatures(
    name: str, function: typing.Any, *, decorator: str = "", skip_first: bool | None = None
) -> Iterator[str]:
    skip = bool(decorator) if skip_first is None else skip_first
    options: dict[str, None] = {}
    for each in typing.get_overloads(function) or [function]:
        is_async = "async " if inspect.iscoroutinefunction(each) else ""
        text = signature(name, each, prefix=f"{is_async}def ", skip_first=skip)
        options.update(dict.fromkeys(re.findall(r"Unpack\[(\w+)\]", text)))
        yield decorator + text
    for typed_dict in options:
        yield _options(typed_dict, inspect.unwrap(function).__globals__[typed_dict])


def _options(name: str, typed_dict: type) -> str:
    """A comment that lists the keyword arguments of a typed dict, which signatures name only."""
    fields = [f"{field}: {_annotation(type_)}" for field, type_ in typed_dict.__annotations__.items()]
    line = f"# {name}: {', '.join(fields)}"
    return line if len(line) <= MAX_SIGNATURE else "\n".join([f"# {name}:", *(f"#     {field}" for field in fields)])


def _code(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"


# --- tables ---------------------------------------------------------------------------------------------------------


CONFIGURATION = """
The keys are Kafka's. They are given to `App` as a mapping, `config={"topology.optimization": "all"}`, or as options
with underscores for dots, `topology_optimization="all"`. A key that is not in these tables is an error that suggests
the nearest one, and so is a value that a key cannot have.

{table}

Keys that begin with one of these are passed on as they are. What is said of Kafka's clients goes by librdkafka's names.

{prefixes}

A value may be `${env:NAME}`, an environment variable, or `${file:PATH}`, what is in a file, but for Spark's. Secrets
are never shown: see [Secure Kafka](../how-to/secure-kafka.md#secrets). Where a cluster is can also be said by the
environment and by profiles: see [Connect to Kafka](../how-to/connect-to-kafka.md).

A *function* for an exception handler takes what is known of the record
([ErrorContext](api/engine-errors.md#errorcontext)) and the exception, and returns `"continue"` or `"fail"`; see
[Errors](../concepts/errors.md). What the optimisations do is in
[Names and plans](../concepts/names-and-plans.md#optimisations), and what the defaults of the serdes mean is in
[Serdes](../concepts/serdes.md).
"""


def configuration() -> str:
    """The page of all configuration keys."""
    rows = [f"| `{key}` | `{_setting(found.default)}` | {found.doc} |" for key, found in KEYS.items()]
    text = _filled(CONFIGURATION, "| Key | Default | |", rows)
    prefixes = [f"| `{prefix}` | {doc} |" for prefix, doc in PREFIXES.items()]
    return _page("Configuration", text.replace("{prefixes}", _table("| Prefix | |", prefixes)))


def _setting(value: object) -> str:
    if value is object:
        return "object"
    if isinstance(value, bool):
        return str(value).lower()
    return value.__name__ if isinstance(value, type) else str(value)


CONNECTORS = """
The connector types that `connector.class` names in a file of `millstream connect run`, and their settings. A class of
your own is named `module:Class`: see [Write a connector](../how-to/write-a-connector.md).

Every connector also has these keys, with Kafka Connect's names:

{table}
"""

CONNECTOR_KEYS = {
    "connector.class": "The type.",
    "key.converter` and `value.converter": "A source: `json`, `json-schemas`, `avro`, or the name of a serde. A sink: "
    "the serde of keys and of values. The classes of Kafka Connect's converters are accepted, too, and "
    "`value.converter.schemas.enable`.",
    "transforms": "Functions that change records, as `module:function`, separated by commas.",
    "errors.tolerance": "`none`: the connector fails at a record that cannot be moved. `all`: it is dropped and "
    "counted.",
    "errors.deadletterqueue.topic.name": "A sink: the topic of such records.",
    "topics": "A sink: the topics that it reads.",
    "tasks.max": "A sink: the number of tasks. The splits of a source are its tasks.",
    "consumer.override.auto.offset.reset": "A sink: where it begins, `earliest` or `latest`.",
    "topic.creation.default.partitions": "A source: the number of partitions of topics that it creates. Other keys "
    "below `topic.creation.default` are the configuration of these topics.",
}


def connectors() -> str:
    """The page of the connector types and their settings."""
    parts = [_filled(CONNECTORS, "| Key | |", [f"| `{key}` | {doc} |" for key, doc in CONNECTOR_KEYS.items()])]
    for plugin in CONNECTOR_TYPES:
        names = f" Also: {', '.join(f'`{alias}`' for alias in plugin.aliases)}." if plugin.aliases else ""
        found = class_of(plugin.name)
        promise = f"Promise: {found.promise}" + (f"; {found.reason}" if found.reason else "") + "."
        rows = [
            f"| `{key}` | {setting.type} | {_default_of(setting.default)} | {setting.doc} |"
            for key, setting in found.settings.items()
        ]
        parts += [f"## {plugin.name}", f"A {plugin.kind}. {plugin.doc}{names} {promise}"]
        parts.append(_table("| Setting | Type | Default | |", rows))
    return _page("Connectors", *parts)


def _default_of(value: object) -> str:
    if value is REQUIRED:
        return "required"
    if value is None:
        return ""
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else _setting(value)}`"


ERRORS = """
All errors are in `millstream.errors`. Each has a `code` that does not change, a `message` that says what happened and
where, and, where there is something to do about it, a `hint`. Dashes before a name show what it is derived from.

{table}

`MillstreamError` and `TopologyError` can be imported from `millstream` itself. How errors are handled while an
application runs is in [Errors](../concepts/errors.md).
"""


def error_classes() -> str:
    """The page of all errors."""
    return _page("Error classes", _filled(ERRORS, "| Class | Code | |", list(_error_rows(errors.MillstreamError, 0))))


def _error_rows(cls: type[errors.MillstreamError], depth: int) -> Iterator[str]:
    others = [base.__name__ for base in cls.__bases__ if not issubclass(base, errors.MillstreamError)]
    also = f" Also a `{others[0]}`." if depth and others else ""
    yield f"| {'– ' * depth}`{cls.__name__}` | `{cls.code}` | {summary(own_doc(cls))}{also} |"
    for below in sorted(cls.__subclasses__(), key=lambda each: definitions(each.__module__)[each.__name__].line):
        if below.__module__ == errors.__name__:
            yield from _error_rows(below, depth + 1)


METRICS_PAGE = """\
`millstream serve` exposes these metrics at `/metrics`: see [Monitor applications](../how-to/monitor.md). Labels have
names of applications, topics, operators and stores, never keys or values of records. Counters count from the start of
a run; a scraper sees a restart as a reset. An application that has ended has its state and its times only.

TABLE

A histogram has the samples `_bucket`, with the label `le`, `_count` and `_sum`. Besides, there are the metrics of the
server's own process: `process_cpu_seconds_total`, `process_resident_memory_bytes` and others.

The numbers of records of operators follow from those of sources, repartitions and sinks, and from the topology,
because a count of its own for each record would cost time. So some are not known: what passes from one filter to the
next, for example. Records of a sink whose topic a function chooses are not known either.

## Metrics of alerts

The rules of the server's own alerts (see [Be alerted](../how-to/alert.md)) compare these values, which it takes every
five seconds. Rates are means over these five seconds.

TABLE

## Rules of alerts

TABLE
"""
DROPPED = """
A record that an operator does not use is counted, under the operator's name and one of these reasons. A test reads the
counts from `TestDriver.dropped`, and the records themselves from `TestDriver.dropped_records`.

{table}

A processor adds reasons of its own with `context.drop(record, "reason")`. A record that a `filter` does not pass, or
that an inner join finds no partner for, is not counted: that is what these operators are for. What can be done about
late records is in [Handle late data](../how-to/handle-late-data.md).
"""

REASONS = {
    "null key": "The operator needs a key, and the record has none. So it is with aggregations, tables and joins; left "
    "and outer joins of a stream let such a record through unmatched.",
    "null value": "The operator needs a value, and the record has none. So it is with aggregations without windows, "
    "sliding windows, and the streams of joins.",
    "null key before repartition": "A record without a key is not written to a repartition topic, unless a left or "
    "outer join behind the topic wants it.",
    "null foreign key": "A row of an inner foreign-key join has no foreign key, or no value to take one from.",
    "late": "The window had closed when the record came; in hopping and sliding windows, counted for each window that "
    "the record missed. `late()` gives the records that missed all of theirs.",
    "before the window": "The record is older than the start of an unlimited window.",
    "older than the history": "The record is older than what a versioned table keeps.",
    "older version": "A join of versioned tables looks at the latest versions only, and this change is an older one.",
    "stale answer": "An answer to a foreign-key join came when the left row had changed again, so it is about a row "
    "that is no longer so.",
    "invalid timestamp": "The timestamp is negative and `on_invalid_timestamp` is `skip`; or the function or field "
    "that gives timestamps gave none, or a negative one.",
    "no branch": "No branch of `split` takes the record, and there is no default.",
    "duplicate": "`deduplicate` has seen an equal record near in time.",
    "deserialization error": "The record could not be read, and the handler said to continue.",
    "processing error": "A function raised an exception on the record, and the handler said to continue.",
    "production error": "The record could not be written, and the handler said to continue.",
}
CONTRACT_REASONS = {
    "dropped by contract NAME: RULE: REASON": "The record violates a rule of a contract. REASON is `violated`, `null`, "
    "`error` or `schema`: see [Contracts](../concepts/contracts.md#rules).",
    "quarantined by contract NAME: RULE: REASON": "The same, and the record is in quarantine.",
}


def dropped_records() -> str:
    """The page of the reasons for which records are dropped."""
    if differing := sorted(REASONS.keys() ^ found_reasons()):
        raise SystemExit(f"error: REASONS in {__file__} and the code do not agree on: {', '.join(differing)}")
    rows = [f"| `{reason}` | {text} |" for reason, text in {**REASONS, **CONTRACT_REASONS}.items()]
    return _page("Dropped records", _filled(DROPPED, "| Reason | |", rows))


def metrics() -> str:
    """The page of the metrics of the server, and of those of alerts."""
    rows = []
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in ("application_id", *family.labels))
        rows.append(f"| `{family.full_name}` | {family.kind} | {labels} | {family.help} |")
    exposed = ["| Name | Type | Labels | |", "|---|---|---|---|", *rows]
    values = ["| Metric | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in RULE_METRICS.items())]
    rules = ["| Rule | Alert if | For | Ends after | Severity | |", "|---|---|---|---|---|---|"]
    for rule in DEFAULT_RULES:
        condition = f"`{rule.metric}` {rule.comparison} {_number(rule.threshold)}".replace("|", "\\|")
        durations = f"{_seconds(rule.for_ms)} | {_seconds(rule.ends_after_ms)}"
        state = "on" if rule.enabled else "off by default"
        rules.append(f"| `{rule.name}` | {condition} | {durations} | {rule.severity} | {state} |")
    parts = METRICS_PAGE.split("TABLE")
    tables = ("\n".join(table) for table in (exposed, values, rules))
    text = "".join(part + table for part, table in zip_longest(parts, tables, fillvalue=""))
    return _page("Metrics", text.strip())


def _number(number: float) -> str:
    """A number without digits that say nothing: ``0.01``, ``10,000,000,000``."""
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


def _seconds(milliseconds: int) -> str:
    """A duration as people write it: ``30s``, ``5m``."""
    if not milliseconds:
        return "at once"
    return f"{milliseconds // 1000}s" if milliseconds % 60_000 else f"{milliseconds // 60_000}m"


def found_reasons() -> set[str]:
    """The reasons that the code gives, as far as it writes them down."""
    found = set()
    for file in sorted([*SOURCE.glob("engine/**/*.py"), *SOURCE.glob("dsl/*.py")]):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "drop" and len(node.args) == 2:
                reason = node.args[1]
                if isinstance(reason, ast.Constant):
                    found.add(str(reason.value))
                elif isinstance(reason, ast.JoinedStr):  # f"{phase} error"
                    found.update(f"{phase} error" for phase in ("deserialization", "processing", "production"))
    return found


FUNCTIONS = """
Functions of expressions: `from millstream import functions`. Names that are Python keywords end in an underscore:
`functions.try_`, `and_`, `or_`, `not_`, `in_`. `?` marks what may be left out, `+` one or more, `*` any number. A
function gives null if an argument is null, except where nulls are what it is about. The
[operators and methods](expr-tree.md#expr) of an expression do the same work where there are both.

{table}
"""


def functions() -> str:
    """The page of the functions of expressions."""
    rows = [
        f"| `{_escaped(found.signature)}` | {_escaped(found.doc)} | {_example(found.example)} |"
        for name, found in CATALOG.items()
        if name.isidentifier()
    ]
    return _page(f"{PACKAGE}.expr.functions", _filled(FUNCTIONS, "| Function | | Example |", rows))


def _example(example: str) -> str:
    call, _, result = example.partition(" -> ")
    return f"`{_escaped(call)}` is `{_escaped(result)}`" if example else ""


SQL_FUNCTIONS = """
The functions of [SQL](../concepts/sql.md). Names are case-insensitive. Unless a row says otherwise, the result is
NULL if an argument is NULL. `T…` is any number of arguments.
"""


def sql_functions() -> str:
    """The page of the functions of SQL, by kind and category."""
    by_title: dict[str, list[str]] = {}
    for function in builtin_catalogue():
        kind = type(function).__name__.removesuffix("Function").lower()
        title = f"{kind.capitalize()} functions" + (f": {function.category}" if kind == "scalar" else "")
        calls = "<br>".join(f"`{function.name}{_escaped(str(signature))}`" for signature in function.signatures)
        shown = function.example
        example = "" if shown is None else f"`{_escaped(shown.expression)}` is `{_escaped(shown.shown)}`"
        by_title.setdefault(title, []).append(f"| {calls} | {_escaped(function.documentation)} | {example} |")
    parts = [f"## {title}\n\n{_table('| Function | | Example |', rows)}" for title, rows in sorted(by_title.items())]
    return _page("Functions of SQL", SQL_FUNCTIONS.strip(), *parts)


SQL_PROPERTIES = """
A statement sets a property with `SET 'name' = 'value'`, and a request of ksqlDB's API sends some with its statements.
`UNSET` takes the value away. Every other name is refused, first of all those of the connection to Kafka and of its
security. Properties that begin with `ksql.functions.` are passed to the functions.

{table}
"""


def sql_properties() -> str:
    """The page of the properties of SQL."""
    known = {**PROPERTIES, **{f"ksql.streams.{name}": each for name, each in STREAMS_PROPERTIES.items()}}
    rows = [
        f"| `{name}` | {'' if each.default in (None, '') else f'`{each.default}`'} | {_escaped(each.documentation)} |"
        for name, each in known.items()
    ]
    rows += [f"| `{name}` | | {ACCEPTED_TEXT} |" for name in ACCEPTED]
    page = _filled(SQL_PROPERTIES, "| Property | Default | |", rows)
    return _page("Properties of SQL", page.replace("``", "`"))


SQL = """
The statements, types and formats of [SQL](../concepts/sql.md), in the dialect of ksqlDB. Words in capitals may be in
any case; `[…]` is optional, `|` separates alternatives. A statement ends with a semicolon.

## Statements

A script that an application runs has the statements that are marked. The [shell](../how-to/use-the-sql-shell.md) and
[test files](../how-to/test-sql.md) have more of them.

{statements}

## Queries

```text
SELECT item, …
FROM source [[AS] alias]
[[INNER | LEFT [OUTER] | RIGHT [OUTER] | FULL [OUTER]] JOIN source [[AS] alias]
    [WITHIN n unit | WITHIN (n unit, n unit) [GRACE PERIOD n unit]] ON expression = expression] …
[WINDOW TUMBLING (SIZE n unit [, RETENTION n unit] [, GRACE PERIOD n unit])
    | HOPPING (SIZE n unit, ADVANCE BY n unit [, RETENTION n unit] [, GRACE PERIOD n unit])
    | SESSION (n unit [, RETENTION n unit] [, GRACE PERIOD n unit])]
[WHERE condition]
[GROUP BY expression, …]
[PARTITION BY expression, …]
[HAVING condition]
[EMIT CHANGES | EMIT FINAL]
[LIMIT n]
```

An item is an expression with an optional alias (`AS name`), `*`, `source.*` or `struct->*`. Units are DAYS, HOURS,
MINUTES, SECONDS and MILLISECONDS.

## Types

{types}

## Formats

The names in `KEY_FORMAT`, `VALUE_FORMAT` and `FORMAT`.

{formats}

## Properties of WITH

{properties}

## Functions

{functions}
"""
_SQL_TYPES = {
    "BOOLEAN": "`TRUE`, `FALSE`",
    "INTEGER": "32 bits; `12`. It wraps around.",
    "BIGINT": "64 bits; `3000000000`. It wraps around.",
    "DOUBLE": "64-bit floating point; `1.5E0`",
    "STRING": "`'text'`, with `''` for a quote",
    "BYTES": "Bytes; JSON has them in base64.",
    "DATE": "A day; JSON has its number since 1970.",
    "TIME": "A time of day; JSON has its milliseconds.",
    "TIMESTAMP": "A time in UTC, in milliseconds; JSON has its milliseconds since 1970.",
}


def sql() -> str:
    """The page of the dialect: statements, types, formats and properties."""
    classes = (each for each in vars(tree).values() if inspect.isclass(each) and issubclass(each, tree.Statement))
    statements = [
        f"| {summary(inspect.getdoc(each) or '').replace('``', '`')} | {'yes' if each in DEFINITIONS else ''} |"
        for each in classes
        if each is not tree.Statement
    ]
    types = [f"| `{name}` | {_escaped(_SQL_TYPES[name])} |" for name, type_ in PRIMITIVES.items() if name == type_.name]
    aliases = ", ".join(f"`{name}` is {type_}" for name, type_ in PRIMITIVES.items() if name != str(type_))
    types += [
        "| `DECIMAL(precision, scale)` | Exact; `1.50` is a DECIMAL(3, 2). |",
        "| `ARRAY<type>` | `ARRAY[1, 2]`; `a[1]` is the first element, `a[-1]` the last. |",
        "| `MAP<type, type>` | `MAP('a' := 1)`; `m['a']` |",
        "| `STRUCT<name type, …>` | `STRUCT(a := 1)`; `s->a` |",
    ]
    formats = [
        f"| `{each.name}` | {_carries(each)} | {_wrapping(each)} | {each.schema_type or ''} |"
        for each in FORMATS.values()
    ]
    of = {"CREATE": CREATE_PROPERTIES, "CREATE … AS": CREATE_AS_PROPERTIES, "INSERT INTO": INSERT_PROPERTIES}
    names = dict.fromkeys(name for known in of.values() for name in known)
    properties = [
        f"| `{name}` | {', '.join(where for where, known in of.items() if name in known)} |" for name in names
    ]
    kinds = Counter(type(function).__name__.removesuffix("Function").lower() for function in builtin_catalogue())
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return _page(
        "SQL",
        SQL.strip().format(
            statements=_table("| Statement | In an application |", statements),
            types=_table("| Type | |", types) + f"\n\nOther names: {aliases}.",
            formats=_table("| Format | Columns | A single value column | Schemas in the registry |", formats),
            properties=_table("| Property | Statements |", properties),
            functions=f"[All functions](sql-functions.md): {counted}.",
        ),
    )


def _carries(format_: Format) -> str:
    count = "one" if format_.single else "none" if format_.types == () else "any number"
    if format_.types:
        return f"{count}: {', '.join(map(str, format_.types))}"
    return count if format_.nested else f"{count}, without ARRAY, MAP and STRUCT"


def _wrapping(format_: Format) -> str:
    if not format_.can_wrap:
        return "bare" if format_.can_unwrap else ""
    return "in an object; bare with WRAP_SINGLE_VALUE=FALSE" if format_.can_unwrap else "in a message"


COMMANDS = """
The program `millstream`, which is also `python -m millstream`. `millstream COMMAND --help` shows the same. How the
commands work together is in [use the command line](../how-to/use-the-command-line.md).

Results go to stdout, everything else to stderr. A failure is a line that begins with `error:` and, where there is
something to do about it, one that begins with `hint:`. With `MILLSTREAM_DEBUG=1` the traceback is shown before it.

## Exit codes

{table}
"""


def command_line() -> str:
    """The page of the command line."""
    rows = [f"| {int(code)} | {_escaped(text)} |" for code, text in MEANINGS.items()]
    parts = [_filled(COMMANDS, "| Code | |", rows)]
    for name, command in get_command(cli).commands.items():  # type: ignore[attr-defined]
        for path, each in _commands(f"millstream {name}", command):
            parts.append(_command(path, each))
    return _page("Command line", *parts)


def _commands(path: str, command: typing.Any) -> Iterator[tuple[str, typing.Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    else:
        if command.invoke_without_command:
            yield path, command
        for name, each in below.items():
            yield from _commands(f"{path} {name}", each)


def _command(path: str, command: typing.Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = [path, *(each.metavar for each in arguments), *(["[OPTIONS]"] if options else [])]
    parts = [f"## {path}", f"```\n{' '.join(usage)}\n```", command.help]
    rows = [f"| `{each.metavar}` | {_escaped(each.help)} |" for each in arguments]
    rows += [f"| {_option(each)} | {_escaped(each.help)}{_unless_given(each)} |" for each in options]
    if rows:
        parts.append(_table("| Argument or option | |", rows))
    if command.epilog:
        examples = [line.strip() for line in command.epilog.splitlines()[1:]]
        parts.append("```\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(parts)


def _option(option: typing.Any) -> str:
    choices = option.type_descriptor.choices
    metavar = option.metavar or ("\\|".join(choices) if choices else option.name.upper())
    taken = "" if option.is_flag else f" {metavar}"
    return ", ".join(f"`{name}{taken}`" for name in [*option.opts, *option.secondary_opts])


def _unless_given(option: typing.Any) -> str:
    said = "" if option.default is None or option.default is False else f" Default: `{option.default}`."
    return said + (f" Environment: `{option.envvar}`." if option.envvar else "")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _table(header: str, rows: list[str]) -> str:
    return "\n".join([header, re.sub(r"[^|]+", "---", header), *rows])


def _filled(text: str, header: str, rows: list[str]) -> str:
    return text.strip().replace("{table}", _table(header, rows))


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", MARK, *parts]) + "\n"


# --- pages ----------------------------------------------------------------------------------------------------------


def http_api() -> str:
    """Renders the routes of the server, from their OpenAPI description."""
    introduction = """\
`millstream serve`, `app.run(serve=…)` and `millstream run --serve` serve these routes. A running server has them as
`/docs`, and for programs as `/openapi.json`.

Programs send a token: `Authorization: Bearer TOKEN`, or the token as the password of Basic. See
[Secure the server](../how-to/secure-the-server.md). An answer is JSON, unless the route says otherwise. A failed
request has `{"error": {"message", "code", "hint"}, "request_id"}`, where the code is that of the
[error class](errors.md), and one of these statuses:

| Status | |
|---|---|
"""
    statuses = "\n".join(f"| {status} | {each['description']} |" for status, each in RESPONSES.items())
    return f"# HTTP API\n\n{MARK}\n\n{introduction}{statuses}\n\n{as_markdown(create_routes().openapi())}"


def pages() -> dict[str, str]:
    """Returns the text of every page by its path below the reference."""
    names = public_names()
    public = {name.obj for name in names if isinstance(name.obj, type)}
    by_module: dict[str, list[Name]] = {}
    for name in names:
        by_module.setdefault(name.module, []).append(name)
    written = {
        "configuration.md": configuration(),
        "errors.md": error_classes(),
        "dropped-records.md": dropped_records(),
        "metrics.md": metrics(),
        "connectors.md": connectors(),
        "cli.md": command_line(),
        "sql.md": sql(),
        "sql-functions.md": sql_functions(),
        "sql-properties.md": sql_properties(),
        "http-api.md": http_api(),
        "api/index.md": _index(by_module),
        "api/expr-functions.md": functions(),
    }
    for module, inside in by_module.items():
        written[f"api/{inside[0].page}"] = _page(
            module, *(part for part in [_introduction(module), *(describe(name, public) for name in inside)] if part)
        )
    return written


def _introduction(module: str) -> str:
    # The front door's own docstring introduces the index.
    return "" if module == PACKAGE else markdown(importlib.import_module(module).__doc__)


def _index(by_module: dict[str, list[Name]]) -> str:
    parts = [markdown(importlib.import_module(PACKAGE).__doc__)]
    for module, inside in by_module.items():
        rows = [f"| [{name.name}]({name.page}#{name.name.lower()}) | {_summary(name)} |" for name in inside]
        origin = " and ".join(f"`{namespace}`" for namespace in sorted({name.namespace for name in inside}))
        parts.append(f"## [{module}]({inside[0].page})\n\nImport from {origin}.")
        parts.append(_table("| Name | |", rows))
    parts.append(f"## [{PACKAGE}.expr.functions](expr-functions.md)")
    parts.append("The functions of expressions. Import `functions` from `millstream`.")
    return _page("API reference", *parts)


def _summary(name: Name) -> str:
    if inspect.isclass(name.obj) or inspect.isroutine(name.obj):
        return summary(own_doc(name.obj))
    return summary(_constant_doc(name))


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages; returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the reference from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder of the reference")
    options = parser.parse_args(arguments)
    wanted = pages()
    # In the folder of the API there is nothing else; beside it there are pages that people write.
    files = {*options.output.glob("api/*.md"), *(options.output / name for name in wanted)}
    present = {
        file.relative_to(options.output).as_posix(): file.read_text(encoding="utf-8") for file in files if file.exists()
    }
    stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if options.check:
        for name in stale:
            print(f"out of date: {(options.output / name)}", file=sys.stderr)
        if stale:
            print("  hint: run `make docs` and commit the pages", file=sys.stderr)
        return 1 if stale else 0
    (options.output / "api").mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (options.output / name).write_text(wanted[name], encoding="utf-8")
        else:
            (options.output / name).unlink()
    print(f"{len(wanted)} pages, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
