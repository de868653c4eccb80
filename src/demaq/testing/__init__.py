"""Tests of applications: a whole engine with a clock that the test moves."""

from demaq.testing.lab import Lab, LabMessage

__all__ = ["Lab", "LabMessage"]
