"""Values of conditions as an operator has written them: `1.50` is found where the store has `1.5`."""

from __future__ import annotations

from dataclasses import replace

from demaq.errors import MessageError, OperatorError
from demaq.evaluation.state.slice_keys import SliceKeys, has_text_keys
from demaq.language.program.program import Program
from demaq.operations.search import MessageSelection


def has_typed_values(selection: MessageSelection, program: Program) -> bool:
    """Return whether a value is of a type in which one value may be written in several ways."""
    named = [program.properties[name].type for name, _ in selection.properties if name in program.properties]
    has_slice = selection.slice is not None and selection.slice[0] in program.slicings
    is_text = not has_slice or selection.slice is None or has_text_keys(program, selection.slice[0])
    return not is_text or any([kind != "string" for kind in named])


def convert_values(selection: MessageSelection, program: Program, keys: SliceKeys) -> MessageSelection:
    """Return a selection with the values that the store has. Raises an OperatorError if one is no value of its type."""
    try:
        properties = tuple(
            [
                (name, keys.property_key(name, text) if name in program.properties else text)
                for name, text in selection.properties
            ]
        )
        found = selection.slice
        if found is not None and found[0] in program.slicings:
            found = (found[0], keys.key(*found))
    except MessageError as error:
        raise OperatorError(error.message) from None
    return replace(selection, properties=properties, slice=found)
