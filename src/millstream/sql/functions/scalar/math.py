"""Mathematical functions. DOUBLE follows IEEE 754: they return NaN or Infinity where Python raises."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.casts import wrap_int, wrap_long
from millstream.sql.functions.catalogue import Overload, ScalarFunction, on, scalar
from millstream.sql.functions.decimals import CONTEXT, unit
from millstream.sql.functions.signatures import Bound
from millstream.sql.functions.values import signed_order, utf16_order
from millstream.sql.types import DecimalType, SqlType

Real = Callable[..., float]

_LONG = 2**63 - 1


def _ieee(function: Real) -> Real:
    """Makes a function of `math` return NaN and Infinity where it raises."""

    def compute(*values: float) -> float:
        try:
            return function(*map(float, values))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return compute


def _real(name: str, documentation: str, example: tuple[str, str], function: Real) -> ScalarFunction:
    overloads = [on(f"({type_}) -> DOUBLE", _ieee(function)) for type_ in ("INT", "BIGINT", "DOUBLE")]
    return scalar(name, "math", documentation, example, *overloads)


def _ln(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _log(base: float, value: float) -> float:
    if base <= 0 or base == 1:
        return math.nan
    return _ln(value) / _ln(base)


def _cbrt(value: float) -> float:
    root = math.cbrt(value)
    # The C library may miss a whole root by the last bit.
    whole = round(root) if abs(value) < 2**52 else 0
    return float(whole) if whole and whole**3 == value else root


def _sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _cot(value: float) -> float:
    tangent = math.tan(value)
    return math.copysign(math.inf, tangent) if tangent == 0 else 1 / tangent


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        odd = exponent % 2 == 1
        return math.copysign(math.inf, base) if odd else math.inf


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


# ----- rounding ------------------------------------------------------------------------------------------------------


def _whole(function: Callable[[float], int]) -> Real:
    def compute(value: float) -> float:
        if not math.isfinite(value) or abs(value) >= 2**52:
            return value
        return math.copysign(float(function(value)), value)

    return compute


def _quantize(value: Decimal, places: int, mode: str) -> Decimal:
    return value.quantize(unit(places), mode, CONTEXT)


def _decimal_places(mode: str) -> Callable[[Bound], Callable[[Decimal], Decimal]]:
    """Rounds to whole numbers; the fraction digits become zeros."""

    def bind(bound: Bound) -> Callable[[Decimal], Decimal]:
        scale = _decimal(bound).scale
        return lambda value: _quantize(_quantize(value, 0, mode), scale, mode)

    return bind


def _decimal(bound: Bound) -> DecimalType:
    type_ = bound.type(0)
    assert isinstance(type_, DecimalType)
    return type_


def _without_fraction(bound: Bound) -> SqlType:
    type_ = _decimal(bound)
    if type_.precision == type_.scale:
        raise SqlStatementError(
            f"{type_} has no digits before the point, so it cannot be rounded to whole numbers: "
            "DECIMAL precision must be >= 1",
            hint="give the number of decimal places, too, or CAST to a DECIMAL with more digits",
        )
    return DecimalType(type_.precision - type_.scale, 0)


def _to_long(value: float) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return _LONG if value > 0 else -_LONG - 1
    return max(-_LONG - 1, min(_LONG, int(value)))


def _round_double(value: float) -> int:
    if not math.isfinite(value) or abs(value) >= 2**52:
        return _to_long(value)
    # The addition of 0.5 would round 0.49999999999999994 up.
    floor = math.floor(value)
    return floor + (value - floor >= 0.5)


def _half_up(value: Any) -> str:
    return ROUND_HALF_UP if value >= 0 else ROUND_HALF_DOWN


def _places(mode_of: Callable[[Any], str]) -> Callable[[float, int], float]:
    def compute(value: float, places: int) -> float:
        if not math.isfinite(value):
            raise ArithmeticError(f"{value} has no decimal places")
        if not -400 <= places <= 400:
            return value if places > 0 else 0.0
        return float(_quantize(Decimal(repr(value)), places, mode_of(value)))

    return compute


def _decimal_to_places(mode_of: Callable[[Any], str]) -> Callable[[Bound], Callable[[Decimal, int], Decimal]]:
    def bind(bound: Bound) -> Callable[[Decimal, int], Decimal]:
        scale = _decimal(bound).scale

        def compute(value: Decimal, places: int) -> Decimal:
            if places >= scale:
                return value
            rounded = _quantize(value, max(places, -1000), mode_of(value))
            return _quantize(rounded, scale, ROUND_DOWN)

        return compute

    return bind


def _rounding(
    name: str,
    documentation: str,
    example: tuple[str, str],
    whole: Callable[[float], int],
    mode_of: Callable[[Any], str],
) -> ScalarFunction:
    return scalar(
        name,
        "math",
        documentation,
        example,
        on("(INT!) -> BIGINT", lambda value: value),
        on("(BIGINT!) -> BIGINT", lambda value: value),
        on("(DOUBLE) -> BIGINT", whole),
        on("(DOUBLE, INT) -> DOUBLE", _places(mode_of)),
        on("(DECIMAL)", lambda value: _quantize(value, 0, mode_of(value)), result=_without_fraction),
        on("(DECIMAL, INT) -> DECIMAL", bind=_decimal_to_places(mode_of)),
    )


def _integral(name: str, documentation: str, example: tuple[str, str], function: Any, mode: str) -> ScalarFunction:
    return scalar(
        name,
        "math",
        documentation,
        example,
        on("(INT) -> INT", lambda value: value),
        on("(BIGINT) -> BIGINT", lambda value: value),
        on("(DOUBLE) -> DOUBLE", _whole(function)),
        on("(DECIMAL) -> DECIMAL", bind=_decimal_places(mode)),
    )


# ----- the largest and the smallest ----------------------------------------------------------------------------------


def _extreme(choose: Callable[..., Any], key: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def compute(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        return choose(present, key=key) if present else None

    return compute


def _widest_decimal(bound: Bound) -> DecimalType:
    decimals = [type_ for type_ in bound.types if isinstance(type_, DecimalType)]
    scale = max(type_.scale for type_ in decimals)
    return DecimalType(max(type_.precision - type_.scale for type_ in decimals) + scale, scale)


def _extreme_decimal(choose: Callable[..., Any]) -> Overload:
    compute = _extreme(choose)

    def bind(bound: Bound) -> Callable[..., Any]:
        scale = _widest_decimal(bound).scale

        def extreme(*values: Decimal | None) -> Decimal | None:
            found = compute(*values)
            return None if found is None else _quantize(found, scale, ROUND_DOWN)

        return extreme

    return on("(DECIMAL, DECIMAL...)", bind=bind, nulls=True, result=_widest_decimal)


def _extremes(name: str, documentation: str, example: tuple[str, str], choose: Callable[..., Any]) -> ScalarFunction:
    keys: dict[str, Callable[[Any], Any] | None] = {"STRING": utf16_order, "BYTES": signed_order}
    plain = [
        on(f"({type_}, {type_}...) -> {type_}", _extreme(choose, keys.get(type_)), nulls=True)
        for type_ in ("INT", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")
    ]
    return scalar(name, "math", documentation, example, *plain, _extreme_decimal(choose))


# ----- distances -----------------------------------------------------------------------------------------------------

_RADIUS_KM = 6371.0
_RADIUS_MI = 3959.0
_KILOMETRES = {"km", "kilometer", "kilometers", "kilometre", "kilometres"}
_MILES = {"mi", "mile", "miles"}


def _geo_distance(lat1: float, lon1: float, lat2: float, lon2: float, unit_name: str | None = None) -> float:
    if not all(-90 <= value <= 90 for value in (lat1, lat2)) or not all(-180 <= value <= 180 for value in (lon1, lon2)):
        raise ValueError("GEO_DISTANCE: valid latitudes are -90 to 90, valid longitudes -180 to 180")
    name = (unit_name or "").strip().lower() or "km"
    if name not in _KILOMETRES | _MILES:
        raise ValueError(f"GEO_DISTANCE: the unit must be miles or kilometers, not {unit_name!r}")
    radius = _RADIUS_KM if name in _KILOMETRES else _RADIUS_MI
    latitude = math.sin(math.radians(lat2 - lat1) / 2) ** 2
    longitude = math.sin(math.radians(lon2 - lon1) / 2) ** 2
    share = latitude + longitude * math.cos(math.radians(lat1)) * math.cos(math.radians(lat2))
    return 2 * math.asin(math.sqrt(share)) * radius


def _random() -> float:
    return random.random()  # noqa: S311  (a number for SQL, no secret)


FUNCTIONS = (
    scalar(
        "ABS",
        "math",
        "Returns the absolute value of a number.",
        ("ABS(-3)", "3"),
        on("(INT) -> INT", lambda value: wrap_int(abs(value))),
        on("(BIGINT) -> BIGINT", lambda value: wrap_long(abs(value))),
        on("(DOUBLE) -> DOUBLE", abs),
        on("(DECIMAL) -> DECIMAL", lambda value: value.copy_abs()),
    ),
    _integral(
        "CEIL",
        "Returns the smallest whole number that is not below its argument.",
        ("CEIL(1.2)", "2.0"),
        math.ceil,
        ROUND_CEILING,
    ),
    _integral(
        "FLOOR",
        "Returns the largest whole number that is not above its argument.",
        ("FLOOR(-1.2)", "-2.0"),
        math.floor,
        ROUND_FLOOR,
    ),
    _rounding(
        "ROUND",
        "Rounds to whole numbers or to a number of decimal places; a half goes toward positive infinity.",
        ("ROUND(2.5e0)", "3"),
        _round_double,
        _half_up,
    ),
    _rounding(
        "TRUNC",
        "Cuts off the fraction, or what lies beyond a number of decimal places.",
        ("TRUNC(-2.7e0)", "-2"),
        _to_long,
        lambda _value: ROUND_DOWN,
    ),
    scalar(
        "SIGN",
        "math",
        "Returns -1, 0 or 1, the sign of a number.",
        ("SIGN(-2.5e0)", "-1"),
        *(on(f"({type_}) -> INT", _sign) for type_ in ("INT", "BIGINT", "DOUBLE")),
    ),
    _real("SQRT", "Returns the square root.", ("SQRT(9)", "3.0"), math.sqrt),
    _real("CBRT", "Returns the cube root.", ("CBRT(27)", "3.0"), _cbrt),
    _real("EXP", "Returns e to the power of a number.", ("EXP(0)", "1.0"), math.exp),
    _real("LN", "Returns the natural logarithm.", ("LN(1)", "0.0"), _ln),
    scalar(
        "LOG",
        "math",
        "Returns the natural logarithm of a number, or its logarithm to a base that goes first.",
        ("LOG(2, 8)", "3.0"),
        *(on(f"({type_}) -> DOUBLE", _ieee(_ln)) for type_ in ("INT", "BIGINT", "DOUBLE")),
        *(on(f"({type_}, {type_}) -> DOUBLE", _ieee(_log)) for type_ in ("INT", "BIGINT", "DOUBLE")),
    ),
    scalar(
        "POWER",
        "math",
        "Returns a number to the power of another one.",
        ("POWER(2, 10)", "1024.0"),
        *(on(f"({type_}, {type_}) -> DOUBLE", _ieee(_power)) for type_ in ("INT", "BIGINT", "DOUBLE")),
    ),
    _real("SIN", "Returns the sine of an angle in radians.", ("SIN(0)", "0.0"), math.sin),
    _real("COS", "Returns the cosine of an angle in radians.", ("COS(0)", "1.0"), math.cos),
    _real("TAN", "Returns the tangent of an angle in radians.", ("TAN(0)", "0.0"), math.tan),
    _real("COT", "Returns the cotangent of an angle in radians.", ("COT(0)", "Infinity"), _cot),
    _real("SINH", "Returns the hyperbolic sine.", ("SINH(0)", "0.0"), _sinh),
    _real("COSH", "Returns the hyperbolic cosine.", ("COSH(0)", "1.0"), math.cosh),
    _real("TANH", "Returns the hyperbolic tangent.", ("TANH(0)", "0.0"), math.tanh),
    _real("ASIN", "Returns the angle in radians with this sine.", ("ASIN(0)", "0.0"), math.asin),
    _real("ACOS", "Returns the angle in radians with this cosine.", ("ACOS(1)", "0.0"), math.acos),
    _real("ATAN", "Returns the angle in radians with this tangent.", ("ATAN(0)", "0.0"), math.atan),
    scalar(
        "ATAN2",
        "math",
        "Returns the angle in radians of the point (x, y); y goes first.",
        ("ATAN2(0, 1)", "0.0"),
        *(on(f"({type_}, {type_}) -> DOUBLE", _ieee(math.atan2)) for type_ in ("INT", "BIGINT", "DOUBLE")),
    ),
    _real("DEGREES", "Converts radians to degrees.", ("DEGREES(0)", "0.0"), math.degrees),
    _real("RADIANS", "Converts degrees to radians.", ("RADIANS(0)", "0.0"), math.radians),
    scalar("PI", "math", "Returns pi.", ("ROUND(PI(), 4)", "3.1416"), on("() -> DOUBLE", lambda: math.pi)),
    scalar(
        "RANDOM",
        "math",
        "Returns a random number from 0 (included) to 1 (excluded).",
        ("FLOOR(RANDOM())", "0.0"),
        on("() -> DOUBLE", _random),
        deterministic=False,
    ),
    _extremes("GREATEST", "Returns the largest of its arguments; NULLs are ignored.", ("GREATEST(1, 3, 2)", "3"), max),
    _extremes("LEAST", "Returns the smallest of its arguments; NULLs are ignored.", ("LEAST('b', 'a')", "a"), min),
    scalar(
        "GEO_DISTANCE",
        "math",
        "Returns the great-circle distance between two points (lat1, lon1, lat2, lon2) in kilometres or miles.",
        ("ROUND(GEO_DISTANCE(0, 0, 0, 90, 'km'))", "10008"),
        on("(DOUBLE!, DOUBLE!, DOUBLE!, DOUBLE!) -> DOUBLE", _geo_distance),
        on("(DOUBLE!, DOUBLE!, DOUBLE!, DOUBLE!, STRING) -> DOUBLE", _geo_distance, nulls=True),
    ),
)
