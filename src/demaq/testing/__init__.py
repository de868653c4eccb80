"""For tests of applications, ours and everybody's: a whole engine with a clock that is moved by hand."""

from demaq.testing.lab import Lab, LabMessage

__all__ = ["Lab", "LabMessage"]
