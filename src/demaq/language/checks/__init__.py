"""The checks that an application must pass before it may run, in reading order: names, definitions, rules, files."""

from demaq.language.checks.broken_inheritance import broken_inheritance
from demaq.language.checks.continued_branches import continued_branches
from demaq.language.checks.document_children import impossible_roots, roots_read_as_descendants
from demaq.language.checks.duplicate_names import duplicate_names, reserved_names
from demaq.language.checks.echo_enqueues import rules_for_echo_queues, timer_targets, timers_without_end
from demaq.language.checks.endless_cycles import endless_cycles
from demaq.language.checks.enqueue_properties import enqueue_properties
from demaq.language.checks.fed_slicings import fed_slicings
from demaq.language.checks.gateway_clauses import (
    endpoints,
    enqueue_into_incoming_gateways,
    error_queues,
    gateway_clauses,
    gateways_not_started,
    reliable_gateways,
    replies,
)
from demaq.language.checks.idle_queues import ruled_mailboxes, unfilled_queues, unread_queues
from demaq.language.checks.message_namespaces import names_in_other_namespaces
from demaq.language.checks.misread_expressions import misread_expressions
from demaq.language.checks.named_files import queue_files
from demaq.language.checks.policy_files import gateway_policies, unapplied_policies
from demaq.language.checks.prologs import (
    declarations_without_value,
    global_variables,
    revalidation_modes,
    settings_declared_twice,
    types_of_updating_functions,
)
from demaq.language.checks.property_definitions import property_cycles, property_queues, property_types, property_values
from demaq.language.checks.property_reads import absent_properties, boolean_constants
from demaq.language.checks.retention import queues_not_retained, slicing_modes, slicings_never_reset
from demaq.language.checks.rule_bodies import rule_bodies
from demaq.language.checks.slice_functions import slice_functions
from demaq.language.checks.unknown_names import (
    unknown_collections,
    unknown_properties,
    unknown_queues,
    unknown_rule_targets,
    unknown_slicings,
)
from demaq.language.checks.updating_expressions import updating_expressions

# Each check is independent of the others: all run, and all problems are reported together.
ERRORS = (
    duplicate_names,
    reserved_names,
    unknown_queues,
    unknown_rule_targets,
    unknown_slicings,
    unknown_properties,
    unknown_collections,
    declarations_without_value,
    global_variables,
    settings_declared_twice,
    revalidation_modes,
    types_of_updating_functions,
    property_types,
    property_queues,
    property_values,
    property_cycles,
    rule_bodies,
    updating_expressions,
    slice_functions,
    enqueue_properties,
    enqueue_into_incoming_gateways,
    gateway_clauses,
    reliable_gateways,
    endpoints,
    replies,
    error_queues,
    rules_for_echo_queues,
    timer_targets,
    queue_files,
    gateway_policies,
)

# These analyse the application as a whole, so they are skipped if statements have syntax errors.
WARNINGS = (
    continued_branches,
    boolean_constants,
    absent_properties,
    misread_expressions,
    broken_inheritance,
    impossible_roots,
    roots_read_as_descendants,
    names_in_other_namespaces,
    fed_slicings,
    slicings_never_reset,
    queues_not_retained,
    slicing_modes,
    unread_queues,
    ruled_mailboxes,
    unfilled_queues,
    gateways_not_started,
    unapplied_policies,
    timers_without_end,
    endless_cycles,
)

__all__ = ["ERRORS", "WARNINGS"]
