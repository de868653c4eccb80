"""Read a large XML file as a stream of UTF-8 that a parser may see: in an allowed encoding, without a document type."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from demaq.encodings import encoding_of
from demaq.errors import MessageError
from demaq.xml_prolog import blank, declaration_end, prolog_end, refuse_doctype, refuse_second_mark

PIECE_BYTES = 65_536
PROLOG_CHARACTERS_MAX = 1_000_000
"""So much may stand before the root, which is held at once."""
_DOCTYPE_LENGTH = len("<!DOCTYPE")


def utf8_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Return a document piece by piece. Raises a MessageError of kind notWellFormed as `parse_document` does."""
    first = file.read(PIECE_BYTES)
    decoder = codecs.getincrementaldecoder(encoding_of(first))()
    try:
        text = decoder.decode(first, final=not first)
        while not _shows_root(text):
            if len(text) > PROLOG_CHARACTERS_MAX:
                reason = f"more than {PROLOG_CHARACTERS_MAX:,} characters stand before the root"
                raise MessageError("notWellFormed", reason)
            piece = file.read(PIECE_BYTES)
            text += decoder.decode(piece, final=not piece)
            if not piece:
                break
        refuse_second_mark(text)
        end = declaration_end(text)
        refuse_doctype(text, end)
        yield (blank(text[:end]) + text[end:]).encode()
        while piece := file.read(PIECE_BYTES):
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise MessageError("notWellFormed", f"it is not in {error.encoding.upper()}") from None


def _shows_root(text: str) -> bool:
    """Return whether it can be told what stands at the place of the root."""
    if "?>" not in text and text.startswith("<?xml"):
        return False
    end = prolog_end(text, declaration_end(text))
    return end is not None and end + _DOCTYPE_LENGTH <= len(text)
