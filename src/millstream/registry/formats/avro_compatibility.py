"""Which Avro schemas can read the records of which others: the rules of schema resolution.

They are those of Apache Avro for Java, which Confluent's registry applies, with one addition: a decimal of another
scale is refused, as the specification demands, because its values would change silently.
"""

from __future__ import annotations

from millstream.registry.formats.avro_parser import AvroField, AvroType
from millstream.registry.formats.problems import Finding, Sides

_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def compare_avro(reader: AvroType, writer: AvroType, sides: Sides) -> list[Finding]:
    """Returns why records of the writer's schema cannot be read with the reader's: nothing if they can."""
    return _Comparison(sides).compare(reader, writer)


class _Comparison:
    """Compares each pair of types once. A pair that is being compared is assumed to match: the schema is recursive."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._known: dict[tuple[int, int], list[Finding]] = {}

    def compare(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer)
        return self._known[pair]

    def _compare(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        if writer.kind == "union":
            return self._from_union(reader, writer)
        if reader.kind == "union":
            return self._into_union(reader, writer)
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return self._scales(reader, writer)
            return [self._mismatch(reader, writer)]
        if reader.kind in {"array", "map"}:
            assert reader.items is not None
            assert writer.items is not None
            step = "[]" if reader.kind == "array" else "{}"
            return [finding.below(step) for finding in self.compare(reader.items, writer.items)]
        if reader.kind in {"record", "enum", "fixed"}:
            return self._named(reader, writer)
        return self._scales(reader, writer)

    # ----- unions ----------------------------------------------------------------------------------------------------

    def _from_union(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        findings: list[Finding] = []
        for branch in writer.branches:
            findings += self.compare(reader, branch)
        return findings

    def _into_union(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        attempts = []
        for branch in reader.branches:
            findings = self.compare(branch, writer)
            if not findings:
                return []
            attempts.append((branch, findings))
        # A branch of the same name is the intended one: its own problems say more than a list of the branches.
        for branch, findings in attempts:
            if branch.kind == writer.kind and branch.short_name == writer.short_name:
                return findings
        names = self._sides
        accepted = ", ".join(map(str, reader.branches)) or "nothing"
        return [Finding("", f"{names.writer} has {writer}, and {names.reader} accepts only {accepted}")]

    # ----- named types -----------------------------------------------------------------------------------------------

    def _named(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        names = self._sides
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            text = (
                f"{names.writer} names the {writer.kind} {writer.name}, {names.reader} {reader.name}, without an alias"
            )
            return [Finding("", text)]
        if reader.kind == "enum":
            return self._enum(reader, writer)
        if reader.kind == "fixed":
            if reader.size != writer.size:
                return [Finding("", f"{names.writer} has {writer.size} bytes, {names.reader} {reader.size}")]
            return self._scales(reader, writer)
        findings: list[Finding] = []
        for field in reader.fields:
            findings += self._field(field, writer)
        return findings

    def _field(self, field: AvroField, writer: AvroType) -> list[Finding]:
        written = {each.name: each for each in writer.fields}
        matches = [name for name in dict.fromkeys((field.name, *field.aliases)) if name in written]
        names = self._sides
        if len(matches) > 1:
            text = f"this field of {names.reader} has several counterparts in {names.writer}: {', '.join(matches)}"
            return [Finding(field.name, text)]
        if matches:
            return [finding.below(field.name) for finding in self.compare(field.type, written[matches[0]].type)]
        if field.has_default:
            return []
        return [Finding(field.name, f"{names.reader} requires this field without a default, {names.writer} lacks it")]

    def _enum(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if not missing or reader.default is not None:
            return []
        symbols = f"symbol{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        text = f"{self._sides.reader} lacks the {symbols} of {self._sides.writer}, and has no default symbol"
        return [Finding("", text)]

    def _scales(self, reader: AvroType, writer: AvroType) -> list[Finding]:
        if reader.properties.get("logicalType") != "decimal" or writer.properties.get("logicalType") != "decimal":
            return []
        read, written = reader.properties.get("scale", 0), writer.properties.get("scale", 0)
        if read == written:
            return []
        return [Finding("", f"{self._sides.writer} has decimals of scale {written}, {self._sides.reader} of {read}")]

    def _mismatch(self, reader: AvroType, writer: AvroType) -> Finding:
        text = f"{self._sides.writer} has {writer}, which {self._sides.reader} cannot read as {reader}"
        return Finding("", text)
