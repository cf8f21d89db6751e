"""A plan as plain data, and a digest of it, with which a later topology is compared before it takes over the state.

The data contains everything that state depends on: operators with their options, windows, serdes, the fields of types,
expressions and stores. The behaviour of a Python function cannot be compared: a digest of its code is recorded beside
the rest, to detect that it changed, and does not belong to the fingerprint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from millstream.core.frozen import Frozen, defaults, fields
from millstream.expr import Expr
from millstream.plan.analysis import PlanFacts
from millstream.plan.code_digest import code_digest
from millstream.plan.contracts import contract_of
from millstream.plan.functions import Function, describe_callable
from millstream.plan.node import Node, Plan, hyphenated
from millstream.plan.schemas import schemas_of, written_key_schemas
from millstream.plan.shapes import shape_of
from millstream.plan.walk import functions_of
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

PlainPlan: TypeAlias = dict[str, Any]

FORMAT = 3
"""The version of the layout that `to_dict` returns."""

_DIGITS = 16
_NOT_STATE = frozenset({"functions", "named", "traits", "contracts", "definitions"})
# Names and lines are not options. State depends neither on queries nor on what the optimizer may do. A changed contract
# goes on with the state, as a changed filter does.
_IGNORED = frozenset({"name", "at", "mergeable", "named", "contract"})


def fingerprint(plan: Plan) -> str:
    """Returns a short digest of everything that the state of an application depends on.

    The order of independent calls, the lines of the source, the names of Python functions and the application id do
    not affect it; a changed operator, option, window, serde, expression or store does. If two digests are equal, state
    can be taken over as it is; if they differ, `millstream.plan.compare.compare` reports the effect on each store.

    >>> from millstream import App
    >>> def topology(size: str) -> App:
    ...     app = App("word-count")
    ...     app.stream(f"{size}-lines", value=str).group_by(lambda line: line).count(store="counts")
    ...     return app
    >>> fingerprint(topology("short").plan()) == fingerprint(topology("short").plan())
    True
    >>> fingerprint(topology("short").plan()) == fingerprint(topology("long").plan())
    False
    """
    import hashlib  # noqa: PLC0415  (rarely needed)
    import json  # noqa: PLC0415

    data = essence(to_dict(plan))
    del data["application_id"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def essence(data: PlainPlan) -> PlainPlan:
    """Returns the parts of a plan's data that state depends on."""
    return {name: part for name, part in data.items() if name not in _NOT_STATE}


def to_dict(plan: Plan) -> PlainPlan:
    """Returns a plan as plain data that JSON can hold, for `fingerprint` and `millstream.plan.compare.compare`.

    - ``format``: the version of this layout.
    - ``application_id``
    - ``operators``: by name, each with its ``kind``, the names of its ``parents`` (left to right) and its ``options``.
      An option with its default value is left out, so that an option that a later version adds changes nothing for
      applications that do not use it. A serde is its name, an expression its tree, and any other function is
      ``{"callable": true}``.
    - ``traits``: by operator, the declarations of its node that a comparison of plans needs.
    - ``stores``: by name, each with its ``operator`` and the fields of its specification. Only stores that exist when
      the plan runs. ``key_type`` and ``value_type`` are the fields of typed keys and values, ``key_schemas`` and
      ``value_schemas`` the schemas of serdes that have one. Repartitions have these, too, and other operators that
      write keys ``key_schemas``.
    - ``named``: the stores that the user named.
    - ``contracts``: by operator, its contract. State does not depend on it.
    - ``definitions``: what a front end has defined, by name, each with its facts: the streams, tables, types and
      queries of SQL. State does not depend on them.
    - ``functions``: the version of ``python``, and by operator and option the digest and place of Python functions.

    >>> from millstream import App
    >>> app = App("totals")
    >>> app.stream("orders", key=str, value=int).group_by_key().count(store="counts")
    Table(orders-count)
    >>> data = to_dict(app.plan())
    >>> data["operators"]["orders-count"]
    {'kind': 'aggregate', 'parents': ['orders-source'], 'options': {'aggregation': {'kind': 'count'}}}
    >>> data["stores"]
    {'counts': {'operator': 'orders-count', 'kind': 'key-value', 'key': 'string', 'value': 'long', 'timestamped': True}}
    """
    facts = PlanFacts(plan)
    stores = [(node, spec) for node in plan.nodes for spec in facts.stores_of(node)]
    return {
        "format": FORMAT,
        "application_id": plan.application_id,
        "operators": {node.name: _operator(node) for node in plan.nodes},
        "traits": {node.name: traits for node in plan.nodes if (traits := _traits(node))},
        "stores": {spec.name: {"operator": node.name, **_options(spec), **_types(spec)} for node, spec in stores},
        "named": sorted(spec.name for _node, spec in stores if spec.named),
        "contracts": {
            node.name: contract.plain() for node in plan.nodes if (contract := contract_of(node)) is not None
        },
        "definitions": {name: dict(facts) for name, facts in plan.definitions.items()},
        "functions": {
            "python": "{}.{}".format(*sys.version_info),
            "operators": {node.name: digests for node in plan.nodes if (digests := dict(_digests(node)))},
        },
    }


def _types(item: Any) -> PlainPlan:
    """The fields of the typed keys and values of a store or a repartition topic."""
    schemas = schemas_of(item)
    untyped = [part for part in ("key", "value") if f"{part}_schemas" not in schemas]
    shapes = {f"{part}_type": shape_of(getattr(item, part)) for part in untyped}
    return {name: shape for name, shape in shapes.items() if shape is not None} | schemas


def _digests(node: Node) -> Iterator[tuple[str, list[str]]]:
    """Yields the Python functions of an operator, by option: a digest of the code, and its location."""
    for option, target in functions_of(node):
        digest = None if isinstance(target, Expr) else code_digest(target)
        if digest is not None:
            yield option, [digest, describe_callable(target)]


def _operator(node: Node) -> PlainPlan:
    types = _types(node) if node.role == "exchange" else written_key_schemas(node)
    return {
        "kind": node.kind,
        "parents": [parent.name for parent in node.parents],
        "options": _options(node, above=node.parents) | types,
    }


def _traits(node: Node) -> PlainPlan:
    traits = {
        "reads_topic": node.role in {"source", "exchange", "global"},
        "key_options": list(node.key_options) if node.changes_key else [],
        "groups": node.groups,
        "holds_input": node.holds_input,
    }
    return {name: trait for name, trait in traits.items() if trait}


def _options(item: Any, above: tuple[Node, ...] = ()) -> PlainPlan:
    """Returns the fields that differ from their defaults, without references to the nodes above."""
    is_node = isinstance(item, Node)
    options: PlainPlan = {}
    usual = defaults(item)
    for field in fields(item):
        value = getattr(item, field)
        if is_node and (field in _IGNORED or isinstance(value, StoreSpec) or _refers_to(value, above)):
            continue
        if field in {"name", "named"} or (
            field in usual and type(value) is type(usual[field]) and value == usual[field]
        ):
            continue
        options[field] = _plain(value)
    return options


def _refers_to(value: Any, above: tuple[Node, ...]) -> bool:
    nodes = value if isinstance(value, tuple) else (value,)
    return bool(nodes) and all(any(node is parent for parent in above) for node in nodes)


def _plain(value: Any) -> Any:
    """Converts an option to plain data."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Node | Serde):
        return value.name
    if isinstance(value, Function):
        expression = value.fingerprint()
        return {"callable": True} if expression is None else expression
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if callable(value):  # a processor's supplier, which may itself be a dataclass
        return {"callable": True}
    if isinstance(value, Frozen):
        return _frozen(value)
    raise TypeError(f"a plan cannot contain {value!r} ({type(value).__name__})")


def _frozen(value: Frozen) -> PlainPlan:
    """Converts a window, an aggregation or the like; two types of windows may have the same fields."""
    kind = hyphenated(type(value).__name__)
    return {"type": kind, **_options(value)} if kind.endswith("-window") else _options(value)
