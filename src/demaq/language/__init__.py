"""The language: text to tree and back."""

from demaq.language.parser import parse_application, parse_query
from demaq.language.printing.printer import print_query

__all__ = ["parse_application", "parse_query", "print_query"]
