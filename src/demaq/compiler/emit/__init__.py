"""A plan as code: XQuery that Saxon runs, and Python for the rules that need no Saxon."""
