"""The language: text to tree and back."""

from demaq.language.parser import parse_application, parse_query

__all__ = ["parse_application", "parse_query"]
