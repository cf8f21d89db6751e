"""Parameters of a query as a model. FastAPI reads a model of fifteen fields in the time of three point queries."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


def read_parameters(request: Request, model: type[Model]) -> Model:
    """Returns the parameters of the query of a request.

    Raises:
        RequestValidationError: One is unknown, is given twice, or is not valid.
    """
    given = request.query_params
    try:
        if len(given) != len(given.multi_items()):
            twice = [{"loc": ("query",), "msg": "a parameter is given twice", "type": "value_error"}]
            raise RequestValidationError(twice)
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems = [{**problem, "loc": ("query", *problem["loc"])} for problem in error.errors(include_url=False)]
        raise RequestValidationError(problems) from None


def described_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the parameters of a model for OpenAPI, as ``openapi_extra`` of a route."""
    parameters = []
    for name, schema in model.model_json_schema(by_alias=True)["properties"].items():
        shown = {key: value for key, value in schema.items() if key not in {"description", "title"}}
        described = {"description": schema["description"]} if "description" in schema else {}
        parameters.append({"name": name, "in": "query", "required": False, **described, "schema": shown})
    return {"parameters": parameters}
