"""Schemas of queues: whether a document is what its queue asks for."""

from __future__ import annotations

from typing import Any, cast

from lxml import etree

from demaq.documents import Document
from demaq.errors import ProgramError
from demaq.language.program.program import Program
from demaq.xml_parsers import parse_file


class QueueSchemas:
    """Every schema of a program, loaded when it is first needed."""

    def __init__(self, program: Program) -> None:
        self._files = {queue.name: queue.schema for queue in program.queues.values() if queue.schema is not None}
        self._loaded: dict[str, etree.XMLSchema] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._files

    def violation(self, queue: str, document: Document) -> str | None:
        """What is wrong with a document for this queue, or None."""
        if queue not in self._files:
            return None
        schema = self._schema(queue)
        if schema.validate(document.tree):
            return None
        first = cast(Any, schema.error_log)[0]
        return f"line {first.line}: {first.message}"

    def _schema(self, queue: str) -> etree.XMLSchema:
        schema = self._loaded.get(queue)
        if schema is None:
            path = self._files[queue]
            try:
                schema = etree.XMLSchema(parse_file(path))
            except (OSError, etree.LxmlError) as error:
                raise ProgramError(f"{path}: {error}", code="DQ0601") from error
            self._loaded[queue] = schema
        return schema
