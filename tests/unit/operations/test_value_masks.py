"""Values are masked wherever they are, and a path that leads nowhere is named."""

from __future__ import annotations

from demaq.operations.value_masks import ValueMasks, parse_mask_path


def test_comments_within_a_masked_element_are_masked():
    masks = ValueMasks(b"secret")
    text = '<o><name>Ada<!-- Lovelace --><?was Byron?></name><said>Ada</said><id n="1815"/></o>'
    masks.find_values(text, [parse_mask_path("//name")])
    masked = masks.mask_document(text)
    assert not [word for word in ("Ada", "Lovelace", "Byron") if word in masked]
    assert '<id n="1815"/>' in masked


def test_a_path_that_leads_to_nothing_is_named_though_others_lead_to_something():
    masks = ValueMasks(b"secret")
    paths = [parse_mask_path(path) for path in ("//name", "/o/e:Name", "//@n", "//@x")]
    masks.find_values('<o><name>Ada</name><id n="1815"/></o>', paths)
    assert masks.list_unused(paths) == ["/o/Name", "//@x"]
