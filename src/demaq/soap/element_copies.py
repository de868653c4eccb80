"""Copy elements into another tree, with the namespaces that their names, attributes and texts need.

A text may have a prefix (`//o:card`). lxml removes the declaration of a namespace when a tree is moved to a place where
the same one has another prefix, so copies are made in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree


def copy_element(parent: etree._Element, element: etree._Element) -> etree._Element:
    """Add a copy of an element with all its content, without comments; return it."""
    copy = copy_tag(parent, element, {str(name): str(value) for name, value in element.attrib.items()})
    copy.text = element.text
    last: etree._Element | None = None
    for child in element:
        if isinstance(child.tag, str):
            last = copy_element(copy, child)
            last.tail = child.tail
        elif last is not None:
            last.tail = (last.tail or "") + (child.tail or "")
        else:
            copy.text = (copy.text or "") + (child.tail or "")
    return copy


def copy_tag(parent: etree._Element, element: etree._Element, attributes: Mapping[str, str]) -> etree._Element:
    """Add an element of the same name with these attributes, ready for the text of the first one; return it."""
    texts = [element.text or "", *[child.tail or "" for child in element], *attributes.values()]
    names = [str(element.tag), *attributes]
    declared = {
        prefix: uri
        for prefix, uri in element.nsmap.items()
        if prefix == element.prefix
        or (prefix is not None and any([name.startswith(f"{{{uri}}}") for name in names]))
        or (prefix is not None and any([f"{prefix}:" in text for text in texts]))
    }
    return etree.SubElement(parent, str(element.tag), dict(attributes), declared)
