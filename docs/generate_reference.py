"""Writes docs/reference/api/*.md from the docstrings of the public names.

    python docs/generate_reference.py            write the pages
    python docs/generate_reference.py --check    say which pages are out of date, and fail if any is

A name is public when a module of ``NAMESPACES`` lists it in ``__all__``. Each module that defines public names has a
page, introduced by the module's own docstring; names and methods keep the order in which the code defines them. The
output depends on the code alone: the same pages come out on every supported Python.
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
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

PACKAGE = "millstream"
NAMESPACES = ("millstream", "millstream.testing")
OUTPUT = Path(__file__).parent / "reference" / "api"
MARK = "<!-- Written by docs/generate_reference.py from the docstrings. Do not edit: run `make docs`. -->"
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
    return sorted(found.values(), key=lambda each: (each.module, each.line, each.name))


def home(name: str, obj: object, namespace: str) -> str:
    """Returns the module that defines a name; an alias or constant does not know it, so the sources are asked."""
    if inspect.isclass(obj) or inspect.isroutine(obj):
        module = getattr(obj, "__module__", None)
        if module and module.partition(".")[0] == PACKAGE:
            return str(module)
    loaded = sorted(module for module in sys.modules if module.partition(".")[0] == PACKAGE)
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
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != PACKAGE or (base is not cls and base in public):
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
        parts += [markdown(definitions(name.module).get(name.name, Definition(0, "")).doc)]
    return "\n\n".join(part for part in parts if part)


def _class(name: Name, cls: type, public: set[type]) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        yield _code(f"class {cls.__name__}(enum.Enum)")
    elif "__init__" in vars(cls) or "__new__" in vars(cls) or dataclasses.is_dataclass(cls):
        yield _code(signature(name.name, cls, prefix="class ").removesuffix(" -> None"))
    else:
        bases = [base.__name__ for base in cls.__bases__ if base in public or issubclass(base, BaseException)]
        yield _code(f"class {name.name}" + (f"({', '.join(bases)})" if bases else ""))
    yield own_doc(cls)
    if issubclass(cls, enum.Enum):
        yield "\n".join(f"- `{member.name}`" for member in cls)
    for member, obj in members(cls, public):
        yield from _member(name.name, member, obj)


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
    for each in typing.get_overloads(function) or [function]:
        is_async = "async " if inspect.iscoroutinefunction(each) else ""
        yield decorator + signature(name, each, prefix=f"{is_async}def ", skip_first=skip)


def _code(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"


# --- pages ----------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Returns the text of every page by its file name."""
    names = public_names()
    public = {name.obj for name in names if isinstance(name.obj, type)}
    by_module: dict[str, list[Name]] = {}
    for name in names:
        by_module.setdefault(name.module, []).append(name)
    written = {"index.md": _index(by_module)}
    for module, inside in by_module.items():
        parts = [f"# {module}", MARK, _introduction(module), *(describe(name, public) for name in inside)]
        written[inside[0].page] = "\n\n".join(part for part in parts if part) + "\n"
    return written


def _introduction(module: str) -> str:
    # The front door's own docstring introduces the index.
    return "" if module == PACKAGE else markdown(importlib.import_module(module).__doc__)


def _index(by_module: dict[str, list[Name]]) -> str:
    parts = ["# API reference", MARK, markdown(importlib.import_module(PACKAGE).__doc__)]
    for module, inside in by_module.items():
        rows = [f"| [{name.name}]({name.page}#{name.name.lower()}) | {_summary(name)} |" for name in inside]
        origin = " and ".join(f"`{namespace}`" for namespace in sorted({name.namespace for name in inside}))
        parts.append(f"## [{module}]({inside[0].page})\n\nImport from {origin}.")
        parts.append("\n".join(["| Name | |", "|---|---|", *rows]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(name: Name) -> str:
    if inspect.isclass(name.obj) or inspect.isroutine(name.obj):
        return summary(own_doc(name.obj))
    return summary(markdown(definitions(name.module).get(name.name, Definition(0, "")).doc))


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages; returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the API reference from the docstrings.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder of the pages")
    options = parser.parse_args(arguments)
    wanted = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in sorted(options.output.glob("*.md"))}
    stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if options.check:
        for name in stale:
            print(f"out of date: {(options.output / name)}", file=sys.stderr)
        if stale:
            print("  hint: run `make docs` and commit the pages", file=sys.stderr)
        return 1 if stale else 0
    options.output.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (options.output / name).write_text(wanted[name], encoding="utf-8")
        else:
            (options.output / name).unlink()
    print(f"{len(wanted)} pages, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
