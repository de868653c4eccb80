"""Make a store with an application on it, ahead of the first run: then it can be filled while nothing is processed."""

from __future__ import annotations

import gc
from datetime import UTC, datetime

from demaq.errors import StoreError, StoreMissing
from demaq.language.program import Program
from demaq.rounds.compiled import compile_program
from demaq.rounds.evaluator import SaxonEvaluator
from demaq.scheduler.evolution import evolve
from demaq.store.opening import open_store, open_store_readonly
from demaq.store.place import Place


def make_store(program: Program, place: Place) -> None:
    """Make a store where there is none, or none with an application. Raise a StoreError if there is one.

    Raise a ProgramError before anything is made if a rule does not compile.
    """
    if _has_application(place):
        raise StoreError(f"{place} has a store with an application already: demaq run goes on with it")
    compiled = compile_program(program)
    store = open_store(place.where)
    try:
        evolve(compiled.plan, SaxonEvaluator(compiled), store, lambda: datetime.now(UTC))
    finally:
        store.close()
        del compiled
        gc.collect()  # Saxon ends the process where another thread frees what this one has made


def _has_application(place: Place) -> bool:
    try:
        store = open_store_readonly(place.where)
    except StoreMissing:
        return False
    try:
        return store.program() is not None
    finally:
        store.close()
