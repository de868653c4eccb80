"""A store that no node runs on."""

from __future__ import annotations

import weakref
from pathlib import Path

from demaq import Node
from demaq.server.offline_node import OfflineNode
from demaq.store.location import place_of


def test_nothing_of_saxon_is_left_for_other_threads_when_a_store_is_closed(tmp_path: Path):
    application = tmp_path / "application.dmq"
    application.write_text("create queue a create queue b create rule r for a if (/n) then do enqueue . into b")
    Node(application, tmp_path / "store").stop()
    store = OfflineNode(place_of(tmp_path / "store"))
    assert store.enqueue("a", b"<n/>", {}, None) == 1
    evaluator = weakref.ref(store._engine.evaluator)
    assert evaluator() is not None
    store.close()
    assert evaluator() is None
