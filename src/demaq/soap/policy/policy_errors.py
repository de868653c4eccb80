"""Errors of policies: one that ends reading, and those that make an alternative unusable, collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from lxml import etree

from demaq.errors import ProgramError
from demaq.soap.policy.assertions import Assertion
from demaq.soap.qualified_names import clark, local_name, shorten
from demaq.source import SourceLocation

UNUSABLE = "DQ0603"
UNSUPPORTED = "DQ0608"
WRONG_KIND = "DQ0609"
PROBLEMS_MAX = 50
"""The most errors that are collected for one alternative."""


def refuse_policy(message: str, at: SourceLocation | None = None, hint: str | None = None) -> NoReturn:
    """Raise ProgramError: the policy cannot be used, for this reason."""
    raise ProgramError(message, at, hint, UNUSABLE)


def name_as_written(element: etree._Element) -> str:
    """Return the name of an element with its prefix."""
    local = local_name(str(element.tag))
    return shorten(f"{element.prefix}:{local}" if element.prefix else local)


@dataclass(slots=True)
class PolicyProblems:
    """What is wrong with one alternative."""

    errors: list[ProgramError] = field(default_factory=list)

    def add(self, message: str, at: SourceLocation, hint: str | None = None, code: str = UNSUPPORTED) -> None:
        is_known = any([(error.message, str(error.at)) == (message, str(at)) for error in self.errors])
        if not is_known and len(self.errors) < PROBLEMS_MAX:  # what holds for both messages is read twice
            self.errors.append(ProgramError(message, at, hint, code))

    def refuse(self, assertion: Assertion, hint: str | None = None) -> None:
        """Add an assertion that is not supported."""
        self.add(f"{name_as_written(assertion.element)} is not supported", assertion.at, hint)

    def refuse_parameters(self, assertion: Assertion, *known: str) -> None:
        """Add the parameters and attributes of an assertion, except those with these names in its namespace.

        An attribute may be without a namespace, as some tools write it.
        """
        names = [clark(assertion.namespace, name) for name in known]
        for child in assertion.parameters:
            if str(child.tag) not in names:
                self._refuse_inside(assertion, name_as_written(child), assertion.locate(child))
        for name in assertion.attributes:
            if name not in names and name not in known:
                self._refuse_inside(assertion, f"the attribute {shorten(local_name(name))}", assertion.at)

    def refuse_content(self, assertion: Assertion) -> None:
        """Add everything that an assertion without parameters and nested policy has."""
        self.refuse_parameters(assertion)
        for nested in assertion.nested or ():
            self._refuse_inside(assertion, name_as_written(nested.element), nested.at)

    def _refuse_inside(self, assertion: Assertion, what: str, at: SourceLocation) -> None:
        self.add(f"{what} of {name_as_written(assertion.element)} is not supported", at)
