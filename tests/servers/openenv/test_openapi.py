"""The document is valid OpenAPI 3.1 and says what the server does."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from openenv_gym.servers.openenv.openapi import openapi

from .fakeworker import FACTS

_CONTROL = {"/reset", "/step", "/state"}
_NESTED: dict[str, Any] = {
    "anyOf": [{"$ref": "#/$defs/Go[int]"}, {"$ref": "#/$defs/Stay"}],
    "discriminator": {
        "propertyName": "type",
        "mapping": {"go": "#/$defs/Go[int]", "stay": "#/$defs/Stay"},
    },
    "$defs": {
        "Go[int]": {"type": "object", "properties": {"to": {"$ref": "#/$defs/Place"}}},
        "Stay": {"type": "object", "properties": {}},
        "Place": {"type": "object", "properties": {"x": {"type": "integer"}}},
    },
}


def _document(schemas: Any = None, **more: Any) -> dict[str, Any]:
    options = {"production": False, "token": False, **more}
    return openapi({"name": "Game"}, schemas or FACTS["schemas"], **options)


@pytest.mark.parametrize("production", [False, True])
@pytest.mark.parametrize("token", [False, True])
def test_the_document_is_valid(production: bool, token: bool) -> None:
    validate(_document(production=production, token=token), cls=OpenAPIV31SpecValidator)


def test_openenvs_tools_find_a_version_and_the_routes_of_the_mode() -> None:
    document = _document()
    assert document["info"]["version"] == "1.0.0"
    assert set(document["paths"]) > _CONTROL
    assert not set(_document(production=True)["paths"]) & _CONTROL


def test_definitions_of_the_environments_schemas_are_components_and_still_found() -> None:
    document = _document({**FACTS["schemas"], "action": _NESTED})
    validate(document, cls=OpenAPIV31SpecValidator)
    components = document["components"]["schemas"]
    assert "$defs" not in components["Action"]
    assert components["Action.Go_int_"]["properties"]["to"] == {"$ref": "#/components/schemas/Action.Place"}
    assert components["Action"]["discriminator"]["mapping"]["stay"] == "#/components/schemas/Action.Stay"
    schema = {**components["StepRequest"], "components": document["components"]}
    jsonschema.validate({"action": {"to": {"x": 3}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"action": {"to": {"x": "no"}}, "sede": 1}, schema)


def test_definitions_given_are_left_as_they_are() -> None:
    schemas = {**FACTS["schemas"], "action": _NESTED}
    before = repr(schemas)
    _document(schemas)
    assert repr(schemas) == before


@pytest.mark.parametrize("reward", [None, True, 1, 0.5, "NaN", "Infinity", "-Infinity"])
def test_an_answer_fits_its_schema(reward: Any) -> None:
    document = _document()
    schema = {**document["components"]["schemas"]["StepResult"], "components": document["components"]}
    answer = {"observation": {"seen": "x"}, "reward": reward, "done": False, "terminated": False}
    jsonschema.validate(answer, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, "reward": "nan"}, schema)


def test_a_token_is_asked_for_everywhere_but_where_it_is_not() -> None:
    document = _document(token=True)
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/health"]["get"]["security"] == []
    assert document["paths"]["/ready"]["get"]["security"] == []
    assert "security" not in document["paths"]["/step"]["post"]
    assert "security" not in _document()
