"""Encoders and decoders for JSON: msgspec's, and pydantic's for types with models of pydantic in them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def is_pydantic(cls: Any) -> bool:
    """Tells whether pydantic validates a class: a model, or one of its dataclasses."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def codec_for(python_type: Any) -> Codec:
    """Returns an encoder, and a decoder into a type; ``object`` is JSON of any shape.

    Raises:
        Exception: JSON cannot be decoded into the type. Which error it is, the library decides that finds it.
    """
    import msgspec

    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    if _has_model(python_type):
        return _with_models(encode), _model_decoder(python_type)
    wanted: Any = Any if python_type is object else python_type
    return encode, msgspec.json.Decoder(wanted, dec_hook=_model).decode


def _has_model(hint: Any) -> bool:
    """Tells whether a model is in an annotation. One in a field of another class is found when it is read."""
    return is_pydantic(hint) or any(map(_has_model, typing.get_args(hint)))


def _model_decoder(python_type: Any) -> Callable[[bytes], Any]:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(python_type)
        adapter.rebuild(raise_errors=True)  # a name that is not known is no fault of the first record
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
    """What msgspec writes in the place of a value that it does not know."""
    if is_pydantic(type(value)):
        return value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True)
    import msgspec

    msgspec.json.encode(value)  # which tells what is wrong with it, unless it is the key of a dict
    raise TypeError("Only dicts with str-like or number-like keys are supported")


def as_python(value: Any) -> Any:
    """What stands for a value that msgspec does not know, with its numbers as they are: JSON has no NaN."""
    if is_pydantic(type(value)):
        return value.__pydantic_serializer__.to_python(value, mode="python")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _model(cls: Any, value: Any) -> Any:
    """Makes a value of a class that msgspec does not know, from plain JSON. msgspec checks what it gets."""
    if not is_pydantic(cls):
        return value
    import msgspec
    from pydantic import ValidationError

    try:  # pydantic takes text for a date in JSON, but not always in Python
        return cls.__pydantic_validator__.validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Any) -> str:
    """What pydantic found, in one line."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{detail['msg']} - at `{_path(detail['loc'])}`" for detail in details)


def _path(location: tuple[int | str, ...]) -> str:
    """A place in JSON, as msgspec writes it."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
