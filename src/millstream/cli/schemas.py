"""`millstream schemas`: lists, shows, registers, checks, compares and deletes the schemas of a registry."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.cli.options import Data, Output, Yes, command
from millstream.cli.printing import print_json, print_note, print_rows, print_text
from millstream.cli.registries import Registry, opened_registry
from millstream.cli.user_input import confirm
from millstream.errors import InvalidSchemaError, UnknownSchemaError, suggestion

if TYPE_CHECKING:
    from millstream.registry import Reference, Registered, Schema, SchemaRegistry

schemas = typer.Typer(no_args_is_help=True, help="List, show, register, check, compare and delete schemas.")

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject: orders-value for the topic orders.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of type .avsc, .json or .proto; - reads stdin.")]
Type = Annotated[
    str | None,
    typer.Option("--type", "-t", metavar="TYPE", help="avro, json or protobuf. Default: by the name of the file."),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        "-r",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that the file refers to; VERSION may be latest. Repeatable.",
    ),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Schemas that differ only in form are the same version.")]

_TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_SUFFIXES = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


@command(schemas, "list", "millstream schemas list", "millstream schemas list --registry http://localhost:8081 -o json")
def list_(
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="List the versions of a subject.")] = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Lists the subjects with their latest version, or all versions of a subject."""
    with opened_registry(registry, data) as opened:
        if subject is not None:
            found = [opened.version(subject, number) for number in _versions(opened, subject)]
            versions = [[each.version, each.id, each.schema.type, len(each.schema.references)] for each in found]
            print_rows(["Version", "Id", "Type", "References"], versions, output)
            return
        rows: list[list[Any]] = []
        for name in opened.subjects():
            latest = opened.latest(name)
            count = len(opened.versions(name))
            rows.append([name, latest.schema.type, latest.version, count, latest.id, opened.compatibility(name)])
    if not rows and output == "table":
        print_note("there are no schemas")
        return
    print_rows(["Subject", "Type", "Latest", "Versions", "Id", "Compatibility"], rows, output)


@command(
    schemas,
    "show",
    "millstream schemas show orders-value",
    "millstream schemas show orders-value --version 2 --output json",
    "millstream schemas show --id 7 > order.avsc",
)
def show(
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="The subject.")] = None,
    version: Annotated[int | None, typer.Option("--version", "-v", help="Its version. Default: the latest.")] = None,
    id: Annotated[int | None, typer.Option("--id", help="An id, as records carry it, instead of a version.")] = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Prints a schema: that of a version of a subject, or that of an id."""
    if id is None and subject is None:
        raise UsageError("there is nothing to show", hint="add a SUBJECT, or --id ID")
    if id is not None and version is not None:
        raise UsageError("--id and --version exclude each other")
    with opened_registry(registry, data) as opened:
        if id is not None:
            schema, facts = opened.schema(id, subject), dict[str, Any](id=id)
        else:
            assert subject is not None
            found = _version(opened, subject, version)
            schema, facts = found.schema, dict[str, Any](id=found.id, subject=found.subject, version=found.version)
            facts["compatibility"] = opened.compatibility(subject)
    if output == "json":
        references = [reference._asdict() for reference in schema.references]
        print_json({**facts, "type": schema.type, "references": references, "schema": schema.text})
        return
    print_note(", ".join(f"{key} {value}" for key, value in {**facts, "type": schema.type}.items()))
    for reference in schema.references:
        print_note(f"refers to {reference.name}: {reference.subject} version {reference.version}")
    print_text(_pretty(schema))


@command(
    schemas,
    "register",
    "millstream schemas register orders-value order.avsc",
    "millstream schemas register orders-value order.proto --reference address.proto=address-value:1",
    "millstream schemas register orders-value order.avsc --compatibility FULL",
)
def register(
    subject: Subject,
    file: File,
    type: Type = None,
    reference: References = None,
    normalize: Normalize = False,
    compatibility: Annotated[
        str | None, typer.Option("--compatibility", metavar="LEVEL", help="First set the level of the subject.")
    ] = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Registers a schema as the next version of a subject, unless it is one of its versions, and prints its id.

    A schema that is not compatible with earlier versions is refused; the reasons name the fields. The level of the
    subject (NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE) determines which versions must be
    able to read the records of which others.
    """
    with opened_registry(registry, data) as opened:
        schema = _read(opened, file, type, reference)
        if compatibility is not None:
            _set_level(opened, subject, compatibility)
        before = set(_versions_or_none(opened, subject))
        opened.register(subject, schema, normalize=normalize)
        found = opened.lookup(subject, schema, normalize=normalize)
    if output == "json":
        created = found.version not in before
        print_json({"id": found.id, "subject": found.subject, "version": found.version, "created": created})
        return
    done = f"{subject} already has this schema: it is" if found.version in before else f"{subject} has"
    print_note(f"{done} version {found.version}, with the id {found.id}")
    print_text(str(found.id))


@command(
    schemas,
    "check",
    "millstream schemas check orders-value order.avsc",
    "millstream schemas check orders-value order.avsc --output json",
)
def check(
    subject: Subject,
    file: File,
    type: Type = None,
    reference: References = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Checks whether a schema is compatible with earlier versions of a subject. Registers nothing.

    The exit code is 3 if it is not.
    """
    with opened_registry(registry, data) as opened:
        problems = opened.problems(subject, _read(opened, file, type, reference))
        level = opened.compatibility(subject)
        is_new = not _versions_or_none(opened, subject)
    if output == "json":
        print_json({"subject": subject, "compatible": not problems, "compatibility": level, "problems": problems})
    elif problems:
        print_text(f"not compatible with {subject} ({level}):")
        for problem in problems:
            print_text(f"  {problem}")
    else:
        print_text(f"compatible with {subject} ({level}){': it has no versions yet' if is_new else ''}")
    if problems:
        raise typer.Exit(ExitCode.INCOMPATIBLE)


@command(
    schemas,
    "diff",
    "millstream schemas diff orders-value",
    "millstream schemas diff orders-value --from 1 --to 3",
    "millstream schemas diff orders-value order.avsc",
)
def diff(
    subject: Subject,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="Compare with a file, not a version.")] = None,
    from_: Annotated[int | None, typer.Option("--from", help="The first version. Default: the one before.")] = None,
    to: Annotated[int | None, typer.Option("--to", help="The second version. Default: the latest.")] = None,
    type: Type = None,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Shows the differences between two versions of a subject, or between a version and a file, and what they break.

    Without options, the latest version is compared with the one before, or with the file.
    """
    from millstream.registry.explanations import breaks

    if file is not None and to is not None:
        raise UsageError("--to and a FILE exclude each other")
    with opened_registry(registry, data) as opened:
        numbers = _versions(opened, subject)
        new_name, new = (file, _read(opened, file, type, None)) if file is not None else _named(opened, subject, to)
        last = to if to is not None else numbers[-1]
        earlier = [number for number in numbers if number < last]
        if from_ is None and file is None and not earlier:
            hint = "name another one with --to, or a FILE"
            raise CommandError(f"subject {subject!r} has no version before {last}", hint=hint)
        old_number = from_ if from_ is not None else numbers[-1] if file is not None else earlier[-1]
        old_name, old = _named(opened, subject, old_number)
        found = breaks(opened, old, new, old_name, new_name)
    lines = list(difflib.unified_diff(_lines(old), _lines(new), old_name, new_name, lineterm="", n=3))
    if output == "json":
        found_json = {"backward": found.backward, "forward": found.forward}
        print_json({"from": old_name, "to": new_name, **found_json, "diff": lines})
        return
    if not lines:
        print_note(f"{old_name} and {new_name} are the same")
        return
    for line in lines:
        typer.echo(_coloured(line))
    print_text("")
    _print_direction(f"{new_name} reads records of {old_name}", found.backward)
    _print_direction(f"{old_name} reads records of {new_name}", found.forward)


@command(
    schemas,
    "delete",
    "millstream schemas delete orders-value --version 2",
    "millstream schemas delete orders-value --permanent --yes",
)
def delete(
    subject: Subject,
    version: Annotated[int | None, typer.Option("--version", "-v", help="A version. Default: all.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Forget the ids, too: records that carry them cannot be read any more.")
    ] = False,
    yes: Yes = False,
    registry: Registry = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Deletes a version of a subject, or all, after confirmation.

    Records with its id can still be read, unless --permanent is given.
    """
    with opened_registry(registry, data) as opened:
        what = f"version {version} of {subject}" if version is not None else f"all versions of {subject}"
        if not permanent:
            _version(opened, subject, version)
        consequence = ". Records with their ids cannot be read any more" if permanent else ""
        confirm(f"Delete {what}{consequence}?", yes=yes)
        deleted = opened.delete(subject, version, permanent=permanent)
    if output == "json":
        print_json({"subject": subject, "deleted": deleted, "permanent": permanent})
        return
    numbers = f"version{'s' if len(deleted) > 1 else ''} {', '.join(map(str, deleted))}"
    are = "are" if len(deleted) > 1 else "is"
    print_note(f"{subject}: {numbers} {are} deleted{' permanently' if permanent else ''}")


# ----- versions ------------------------------------------------------------------------------------------------------


def _versions(registry: SchemaRegistry, subject: str) -> list[int]:
    """Returns the versions of a subject, or raises an error with similar names."""
    try:
        return registry.versions(subject)
    except UnknownSchemaError as error:
        if error.hint is not None:
            raise
        known = registry.subjects()
        hint = suggestion(subject, known) or (f"it has: {', '.join(known[:20])}" if known else "it has no subjects yet")
        raise UnknownSchemaError(error.message, hint=hint) from None


def _versions_or_none(registry: SchemaRegistry, subject: str) -> list[int]:
    try:
        return registry.versions(subject)
    except UnknownSchemaError:
        return []


def _version(registry: SchemaRegistry, subject: str, version: int | None) -> Registered:
    numbers = _versions(registry, subject)
    if version is None:
        return registry.latest(subject)
    if version not in numbers:
        hint = f"it has: {', '.join(map(str, numbers))}"
        raise UnknownSchemaError(f"subject {subject!r} has no version {version}", hint=hint)
    return registry.version(subject, version)


def _named(registry: SchemaRegistry, subject: str, version: int | None) -> tuple[str, Schema]:
    found = _version(registry, subject, version)
    return f"version {found.version}", found.schema


def _set_level(registry: SchemaRegistry, subject: str, level: str) -> None:
    registry.set_compatibility(level, subject)
    print_note(f"{subject}: the compatibility level is {registry.compatibility(subject)}")


# ----- files ---------------------------------------------------------------------------------------------------------


def _read(registry: SchemaRegistry, file: str, type: str | None, references: list[str] | None) -> Schema:
    """Reads a schema from a file, or from stdin."""
    from millstream.registry import Schema

    kind = _type_of(file, type)
    if file == "-":
        text = sys.stdin.read()
    else:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InvalidSchemaError(f"{file} is not text") from None
    return Schema(text, kind, tuple(_reference(registry, reference) for reference in references or ()))


def _type_of(file: str, type: str | None) -> Any:
    if type is not None:
        if type.lower() not in _TYPES:
            hint = suggestion(type.lower(), _TYPES) or f"use one of: {', '.join(_TYPES)}"
            raise UsageError(f"--type: there is no type {type!r}", hint=hint)
        return _TYPES[type.lower()]
    kind = _SUFFIXES.get(Path(file).suffix.lower())
    if kind is None:
        raise UsageError(f"the type of {file} is unknown", hint=f"add --type {', --type '.join(_TYPES)}")
    return kind


def _reference(registry: SchemaRegistry, text: str) -> Reference:
    from millstream.registry import Reference

    name, _equals, place = text.rpartition("=")
    subject, _colon, version = place.rpartition(":")
    if not (name and subject and (version == "latest" or version.isdecimal())):
        raise UsageError(f"--reference: {text!r} is not of the form NAME=SUBJECT:VERSION")
    return Reference(name, subject, registry.latest(subject).version if version == "latest" else int(version))


# ----- texts ---------------------------------------------------------------------------------------------------------


def _pretty(schema: Schema) -> str:
    """Returns the text of a schema with line breaks: that of a registry often has none."""
    import json

    if schema.type == "PROTOBUF":
        return schema.text.rstrip("\n")
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except ValueError:
        return schema.text


def _lines(schema: Schema) -> list[str]:
    return _pretty(schema).split("\n")


def _coloured(line: str) -> str:
    from millstream.text.escaping import printable

    text = printable(line)
    if line.startswith(("---", "+++", "@@")):
        return typer.style(text, bold=True)
    colour = {"+": "green", "-": "red"}.get(line[:1])
    return typer.style(text, fg=colour) if colour else text


def _print_direction(what: str, problems: list[str]) -> None:
    print_text(f"{what}: {'no' if problems else 'yes'}")
    for problem in problems:
        print_text(f"  {problem}")
