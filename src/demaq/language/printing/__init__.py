"""Print trees: for evaluation (flat, or mapped to the source) and for reading (formatted)."""

from demaq.language.printing.flat import SourceMap
from demaq.language.printing.printer import format_module, format_query, print_expr, print_mapped, print_query

__all__ = ["SourceMap", "format_module", "format_query", "print_expr", "print_mapped", "print_query"]
