"""Simple rules at work: what `demaq.compiler.emit.python` has translated, run on lxml's trees."""
