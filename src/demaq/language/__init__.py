"""The language: from source text to a checked program, and from trees back to text."""

from demaq.language.parser import parse_application, parse_query
from demaq.language.printing.printer import print_query

__all__ = ["parse_application", "parse_query", "print_query"]
