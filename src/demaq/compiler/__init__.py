"""The compiler: a checked program to a plan, a plan to XQuery that Saxon runs."""
