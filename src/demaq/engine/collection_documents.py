"""What an operator may load into a collection."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.language.program.program import Program
from demaq.suggestions import describe_unknown


def collection_texts(program: Program, name: str, documents: Sequence[bytes | str]) -> list[str]:
    """Documents for a collection, checked. Raises a MessageError: for all or for none.

    Collections need no declaration; but where the program declares some, it means these.
    """
    if program.collections and name not in program.collections:
        raise MessageError("enqueueError", describe_unknown("collection", name, program.collections))
    texts: list[str] = []
    for number, document in enumerate(documents, 1):
        try:
            texts.append(parse_document(document).text)
        except MessageError as error:
            raise MessageError(
                error.kind, f"document {number} of collection {name}: {error.message}", error.code
            ) from None
    return texts
