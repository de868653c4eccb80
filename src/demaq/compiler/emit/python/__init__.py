"""Emit native rules: Python functions on lxml trees, for rules of paths, comparisons, constructors, choices and loops.

Saxon evaluates every rule. Most rules are small, and for these the call into Saxon costs more than the evaluation. Here
an expression becomes the text of a Python expression, or `NotTranslatable` is raised. Translation is exact: what a
translated expression cannot decide exactly (errors above all) is left to Saxon by raising `NeedsSaxon` when it is
evaluated.
"""
