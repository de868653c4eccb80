"""Convert the text of a slice key to the canonical key of the store: `01` and `1` are one integer."""

from __future__ import annotations

from typing import Any

from demaq.compiler.emit.xquery.blocks import make_runtime_query
from demaq.compiler.emit.xquery.vocabulary import runtime_name
from demaq.errors import MessageError
from demaq.evaluation.saxon.processor import Saxon
from demaq.language.program.program import Program

_FAILED = "X"
_QUERY = f"""[function($type as xs:string, $text as xs:string) as xs:string {{
  try {{ "K" || {runtime_name("key")}({runtime_name("cast")}($type, xs:untypedAtomic($text))) }}
  catch * {{
    (: keys of dates and times are moments: as they are listed, they are no values of their types :)
    if ($type = ("date", "time") and $text castable as xs:dateTime
        and {runtime_name("key")}(xs:dateTime($text)) eq $text)
    then "K" || $text
    else "{_FAILED}"
  }}
}}]"""


class SliceKeys:
    """Keys of the slicings of one program."""

    def __init__(self, program: Program, saxon: Saxon | None = None) -> None:
        self._program = program
        self._saxon = saxon
        self._function: Any = None

    def key(self, slicing: str, text: str) -> str:
        """Return the key of a slice of this slicing. Raises a MessageError if the text is no value of its property."""
        kind = _key_type(self._program, slicing)
        found = self._convert(kind, text)
        if found is None:
            raise MessageError("propertyError", f"{text} is no key of slicing {slicing}: its keys are xs:{kind}")
        return found

    def property_key(self, name: str, text: str) -> str:
        """Return the key of a property's value. Raises a MessageError if the text is no value of the property."""
        kind = self._program.properties[name].type
        found = self._convert(kind, text)
        if found is None:
            raise MessageError("propertyError", f"{text} is no value of property {name}: its values are xs:{kind}")
        return found

    def _convert(self, kind: str, text: str) -> str | None:
        if kind == "string":
            return text
        saxon = self._saxon = self._saxon or Saxon()
        if self._function is None:
            self._function = saxon.functions(make_runtime_query(_QUERY))[0]
        found = saxon.call(self._function, saxon.string(kind), saxon.string(text))
        if found == _FAILED and kind in ("date", "time"):  # their keys are written as points in time
            return self._convert("dateTime", text)
        return None if found == _FAILED else found[1:]


def has_text_keys(program: Program, slicing: str) -> bool:
    """Return whether the keys of a slicing are texts, which the store has as they are written."""
    return _key_type(program, slicing) == "string"


def _key_type(program: Program, slicing: str) -> str:
    return program.properties[program.slicings[slicing].property].type
