"""Types and JSON Schemas as Gymnasium spaces, and values of spaces as JSON."""

from __future__ import annotations

from .describing import space_form, space_schema
from .form import Form, form_of, schema_form
from .reading import value_from_json
from .writing import value_to_json

__all__ = [
    "Form",
    "form_of",
    "schema_form",
    "space_form",
    "space_schema",
    "value_from_json",
    "value_to_json",
]
