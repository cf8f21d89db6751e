"""Encoders and decoders for JSON: msgspec's, and pydantic's for types that contain pydantic models."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def is_pydantic(cls: Any) -> bool:
    """Whether pydantic validates a class: a model, or a pydantic dataclass."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def codec_for(python_type: Any) -> Codec:
    """Returns an encoder, and a decoder into a type; ``object`` is JSON of any shape.

    Raises:
        Exception: JSON cannot be decoded into the type. msgspec and pydantic raise different errors.
    """
    import msgspec

    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    if _has_model(python_type):
        return _with_models(encode), _model_decoder(python_type)
    target: Any = Any if python_type is object else python_type
    return encode, msgspec.json.Decoder(target, dec_hook=_model).decode


def _has_model(hint: Any) -> bool:
    """Whether an annotation contains a model. Models in fields of other classes are handled by `_model`."""
    return is_pydantic(hint) or any(map(_has_model, typing.get_args(hint)))


def _model_decoder(python_type: Any) -> Callable[[bytes], Any]:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(python_type)
        adapter.rebuild(raise_errors=True)  # an unknown name is an error now, not at the first record
    except PydanticUserError as error:
        raise TypeError(error.message.partition("\n")[0]) from error
    validate = adapter.validate_json

    def decode(data: bytes) -> Any:
        try:
            return validate(data)
        except ValidationError as error:
            raise ValueError(_reason(error)) from error

    return decode


def _with_models(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encode_model(value: Any) -> bytes:
        serializer = getattr(value, "__pydantic_serializer__", None)
        json: bytes = encode(value) if serializer is None else serializer.to_json(value, by_alias=True)
        return json

    return encode_model


def _plain(value: Any) -> Any:
    """Returns the value that msgspec encodes in place of one that it does not support."""
    if is_pydantic(type(value)):
        return value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True)
    import msgspec

    msgspec.json.encode(value)  # raises the precise error, unless the value is the key of a dict
    raise TypeError("Only dicts with str-like or number-like keys are supported")


def as_python(value: Any) -> Any:
    """Returns plain Python data for a value that msgspec does not support; NaN and infinities remain numbers."""
    if is_pydantic(type(value)):
        return value.__pydantic_serializer__.to_python(value, mode="python")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _model(cls: Any, value: Any) -> Any:
    """Creates a value of a class that msgspec does not support, from plain JSON. msgspec checks the result."""
    if not is_pydantic(cls):
        return value
    import msgspec
    from pydantic import ValidationError

    try:  # pydantic always accepts text for a date in JSON, but not in Python data
        return cls.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Any) -> str:
    """Returns the errors of pydantic in one line."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{detail['msg']} - at `{_path(detail['loc'])}`" for detail in details)


def _path(location: tuple[int | str, ...]) -> str:
    """Returns the path of a JSON value, as msgspec writes it."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
