"""Evaluate native rules: what `demaq.compiler.emit.python` has translated, run on lxml's trees."""
