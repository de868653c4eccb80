"""Simple rules at work: what `demaq.compiler.simple` has translated, run on lxml's trees."""
