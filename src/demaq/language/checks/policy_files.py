"""The policies of gateways can be read, are implemented, and belong to what the gateway asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lxml import etree

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.checks.named_files import explain_file_error, name_folder, resolve_file
from demaq.language.diagnostics import Diagnostic, error, warning
from demaq.language.program.bodies import DraftModule
from demaq.language.program.draft import Draft

if TYPE_CHECKING:
    from demaq.soap.policy import GatewayPolicy

_GATEWAYS = ("incomingGateway", "outgoingGateway")
_OF_INTERFACE = ("DQ0602", "DQ0604")
"""What is wrong with an interface apart from its policies."""


def gateway_policies(draft: Draft) -> Iterator[Diagnostic]:
    """Yield what is wrong with the policies that `using` clauses name, and with those of the interface they need."""
    for module, queue in draft.statements(ast.QueueDecl):
        if queue.using:
            yield from _check_policies(module, queue)


def unapplied_policies(draft: Draft) -> Iterator[Diagnostic]:
    """Yield gateways that are run without what their interface asks for."""
    for module, queue in draft.statements(ast.QueueDecl):
        if queue.interface is None or queue.kind not in _GATEWAYS:
            continue
        used = [using.extension for using in queue.using]
        try:
            policy = _read_interface(module, queue)
        except ProgramError as failure:
            if not used and failure.code not in _OF_INTERFACE:
                text = f"the policy of {queue.interface.path} is not applied, and cannot be: {failure}"
                yield warning("DQ1507", text, queue.interface.at, failure.hint)
            continue
        for extension in _list_extensions(policy) if policy is not None else []:
            if extension not in used:
                yield warning(
                    "DQ1507",
                    f'gateway "{queue.name}" is run without {extension}, which {queue.interface.path} asks for',
                    queue.interface.at,
                    f"using {extension}",
                )


def _list_extensions(policy: GatewayPolicy) -> Iterator[str]:
    """Yield the extensions that a policy cannot do without. HTTPS alone needs none."""
    if policy.reliability is not None:
        yield "WS-ReliableMessaging"
    if policy.security is not None and (policy.security.request.needs_header or policy.security.answer.needs_header):
        yield "WS-Security"


def _check_policies(module: DraftModule, queue: ast.QueueDecl) -> Iterator[Diagnostic]:
    from demaq.soap.policy import combine_policies, read_extension_policy

    own: dict[ast.Using, GatewayPolicy | None] = {}
    for using in queue.using:
        if using.policy is None:
            own[using] = None
            continue
        path = resolve_file(module, using.policy)
        try:
            own[using] = read_extension_policy(using.extension, path)
        except (OSError, etree.XMLSyntaxError, ProgramError) as failure:
            yield from _report(module, using.policy, failure)
    interface: GatewayPolicy | None = None
    if queue.interface is not None:
        try:
            interface = _read_interface(module, queue)
        except ProgramError as failure:
            if failure.code not in _OF_INTERFACE:
                yield from _report(module, queue.interface, failure)
            return
    together: dict[str, GatewayPolicy | None] = {}
    for using, policy in own.items():
        try:
            combine_policies({**together, using.extension: policy}, interface)
            together[using.extension] = policy
        except ProgramError as failure:
            if queue.kind in _GATEWAYS:
                yield error(failure.code, failure.message, (using.policy or using).at, failure.hint)


def _read_interface(module: DraftModule, queue: ast.QueueDecl) -> GatewayPolicy | None:
    from demaq.soap.policy import read_interface_policy

    assert queue.interface is not None, "only asked of queues with an interface"
    return read_interface_policy(resolve_file(module, queue.interface), queue.port)


def _report(
    module: DraftModule, file: ast.File, failure: OSError | etree.XMLSyntaxError | ProgramError
) -> Iterator[Diagnostic]:
    if not isinstance(failure, ProgramError):
        reason = explain_file_error(failure)
        if isinstance(failure, etree.XMLSyntaxError) and "column" not in reason:
            line, column = failure.position
            reason = f"{reason}, at line {line}, column {column}"
        hint = name_folder(module) if isinstance(failure, OSError) else None
        yield error("DQ0603", f"policy {file.path} cannot be used: {reason}", file.at, hint)
        return
    for each in (failure, *failure.others):
        words = each.message if each.at is not None else f"policy {file.path} cannot be used: {each.message}"
        yield error(each.code, words, each.at or file.at, each.hint)
