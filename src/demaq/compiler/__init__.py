"""The compiler: from a checked program to a plan, and from a plan to XQuery (for Saxon) and Python (native rules)."""
