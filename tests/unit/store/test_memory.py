"""The store in memory keeps the contract."""

from __future__ import annotations

import pytest

from demaq.store import MemoryStore
from tests.support.store.contract import Clock, StoreContract
from tests.support.store.operator_contract import OperatorContract
from tests.support.store.sequence_contract import SequenceContract


class TestMemoryStore(StoreContract, SequenceContract, OperatorContract):
    @pytest.fixture
    def store(self, clock: Clock) -> MemoryStore:
        return MemoryStore(now=clock)
