"""The demonstration: the paper's scenario with much traffic, and whether all of it came out right."""
