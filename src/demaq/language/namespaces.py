"""The predeclared namespaces, and the canonical names of an application's parts."""

from __future__ import annotations

QS = "http://www.demaq.net/qs"
DEMAQ = "http://www.demaq.net/demaq"
XS = "http://www.w3.org/2001/XMLSchema"
FN = "http://www.w3.org/2005/xpath-functions"
MAP = "http://www.w3.org/2005/xpath-functions/map"
ARRAY = "http://www.w3.org/2005/xpath-functions/array"
MATH = "http://www.w3.org/2005/xpath-functions/math"
ERR = "http://www.w3.org/2005/xqt-errors"
XML = "http://www.w3.org/XML/1998/namespace"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
LOCAL = "http://www.w3.org/2005/xquery-local-functions"
XQUERY = "http://www.w3.org/2012/xquery"

PREFIXES = {
    "qs": QS,
    "demaq": DEMAQ,
    "xs": XS,
    "fn": FN,
    "map": MAP,
    "array": ARRAY,
    "math": MATH,
    "err": ERR,
    "xml": XML,
    "xsi": XSI,
    "local": LOCAL,
}


def make_part_name(uri: str | None, local: str) -> str:
    """Return the canonical name of a queue, property, slicing, rule or collection.

    Unprefixed names are themselves, names of the system are `demaq:local`, others carry their namespace.
    """
    if not uri:
        return local
    return f"demaq:{local}" if uri == DEMAQ else f"Q{{{uri}}}{local}"
