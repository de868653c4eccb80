"""The functions and types that every expression can use: XPath and XQuery Functions 3.1, constructors, and Demaq's own.

Functions with access to anything but messages are known too, so that they are refused with a reason: a rule may depend
on nothing but the store, or evaluating it twice could give different results.
"""

from __future__ import annotations

from demaq.language.namespaces import ARRAY, FN, MAP, MATH, QS, XS

MANY = 1_000_000
"""The largest arity of functions that take any number of arguments."""

FunctionName = tuple[str, str]
"""Namespace and local name."""


def _table(text: str) -> dict[str, tuple[int, ...]]:
    """Parse a table; `name 1-2` and `name 2,5` give the allowed numbers of arguments."""
    found: dict[str, tuple[int, ...]] = {}
    words = text.split()
    for name, counts in zip(words[::2], words[1::2], strict=True):
        allowed: list[int] = []
        for part in counts.split(","):
            least, dash, most = part.partition("-")
            allowed += range(int(least), int(most if dash else least) + 1)
        found[name] = tuple(allowed)
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FN = _table(
    """
    abs 1  adjust-date-to-timezone 1-2  adjust-dateTime-to-timezone 1-2  adjust-time-to-timezone 1-2
    analyze-string 2-3  apply 2  available-environment-variables 0  avg 1  base-uri 0-1  boolean 1  ceiling 1
    codepoint-equal 2  codepoints-to-string 1  collation-key 1-2  collection 1  compare 2-3  contains 2-3
    contains-token 2-3  count 1  current-date 0  current-dateTime 0  current-time 0  data 0-1  dateTime 2
    day-from-date 1  day-from-dateTime 1  days-from-duration 1  deep-equal 2-3  default-collation 0
    default-language 0  distinct-values 1-2  doc 1  doc-available 1  document-uri 0-1  element-with-id 1-2  empty 1
    encode-for-uri 1  ends-with 2-3  environment-variable 1  error 0-3  escape-html-uri 1  exactly-one 1  exists 1
    false 0  filter 2  floor 1  fold-left 3  fold-right 3  for-each 2  for-each-pair 3  format-date 2,5
    format-dateTime 2,5  format-integer 2-3  format-number 2-3  format-time 2,5  function-arity 1  function-lookup 2
    function-name 1  generate-id 0-1  has-children 0-1  head 1  hours-from-dateTime 1  hours-from-duration 1
    hours-from-time 1  id 1-2  idref 1-2  implicit-timezone 0  in-scope-prefixes 1  index-of 2-3  innermost 1
    insert-before 3  iri-to-uri 1  json-doc 1-2  json-to-xml 1-2  lang 1-2  last 0  load-xquery-module 1-2
    local-name 0-1  local-name-from-QName 1  lower-case 1  matches 2-3  max 1-2  min 1-2  minutes-from-dateTime 1
    minutes-from-duration 1  minutes-from-time 1  month-from-date 1  month-from-dateTime 1  months-from-duration 1
    name 0-1  namespace-uri 0-1  namespace-uri-for-prefix 2  namespace-uri-from-QName 1  nilled 0-1  node-name 0-1
    normalize-space 0-1  normalize-unicode 1-2  not 1  number 0-1  one-or-more 1  outermost 1  parse-ietf-date 1
    parse-json 1-2  parse-xml 1  parse-xml-fragment 1  path 0-1  position 0  prefix-from-QName 1  put 2  QName 2
    random-number-generator 0-1  remove 2  replace 3-4  resolve-QName 2  resolve-uri 1-2  reverse 1  root 0-1
    round 1-2  round-half-to-even 1-2  seconds-from-dateTime 1  seconds-from-duration 1  seconds-from-time 1
    serialize 1-2  sort 1-3  starts-with 2-3  static-base-uri 0  string 0-1  string-join 1-2  string-length 0-1
    string-to-codepoints 1  subsequence 2-3  substring 2-3  substring-after 2-3  substring-before 2-3  sum 1-2  tail 1
    timezone-from-date 1  timezone-from-dateTime 1  timezone-from-time 1  tokenize 1-3  trace 1-2  transform 1
    translate 3  true 0  unordered 1  unparsed-text 1-2  unparsed-text-available 1-2  unparsed-text-lines 1-2
    upper-case 1  uri-collection 0-1  xml-to-json 1-2  year-from-date 1  year-from-dateTime 1  years-from-duration 1
    zero-or-one 1
    """
)
_MATH = _table(
    """
    acos 1  asin 1  atan 1  atan2 2  cos 1  exp 1  exp10 1  log 1  log10 1  pi 0  pow 2  sin 1  sqrt 1  tan 1
    """
)
_MAP = _table("contains 2  entry 2  find 2  for-each 2  get 2  keys 1  merge 1-2  put 3  remove 2  size 1")
_ARRAY = _table(
    """
    append 2  filter 2  flatten 1  fold-left 3  fold-right 3  for-each 2  for-each-pair 3  get 2  head 1
    insert-before 3  join 1  put 3  remove 2  reverse 1  size 1  sort 1-3  subarray 2-3  tail 1
    """
)
_QS = _table("message 0  property 1-2  queue 0-1  slice 0  slicekey 0")

ATOMIC_TYPES = _words(
    """
    anyURI base64Binary boolean byte date dateTime dateTimeStamp dayTimeDuration decimal double duration ENTITY float
    gDay gMonth gMonthDay gYear gYearMonth hexBinary ID IDREF int integer language long Name NCName negativeInteger
    NMTOKEN nonNegativeInteger nonPositiveInteger normalizedString positiveInteger QName short string time token
    unsignedByte unsignedInt unsignedLong unsignedShort untypedAtomic yearMonthDuration
    """
)
"""Local names of the types of XML Schema whose values are single and atomic."""

TYPES = ATOMIC_TYPES | _words(
    "anyAtomicType anySimpleType anyType ENTITIES error IDREFS NMTOKENS NOTATION numeric untyped"
)
"""Local names of all types of XML Schema that an expression may mention."""

_CONSTRUCTORS = ATOMIC_TYPES | {"ENTITIES", "IDREFS", "NMTOKENS", "error", "numeric"}

ARITIES: dict[FunctionName, tuple[int, ...]] = {
    **{(FN, name): counts for name, counts in _FN.items()},
    **{(MATH, name): counts for name, counts in _MATH.items()},
    **{(MAP, name): counts for name, counts in _MAP.items()},
    **{(ARRAY, name): counts for name, counts in _ARRAY.items()},
    **{(QS, name): counts for name, counts in _QS.items()},
    **{(XS, name): (1,) for name in _CONSTRUCTORS},
}
"""How many arguments each function takes. `concat` is separate: it takes any number from two."""

CONCAT = (FN, "concat")

_OTHER_FILES = "a rule reads messages and collections, no other files"
_ENVIRONMENT = "the outcome of a rule may not depend on the machine it runs on"
_OTHER_CODE = "it would run unchecked code"

REFUSED: dict[FunctionName, str] = {
    (FN, "doc"): _OTHER_FILES,
    (FN, "doc-available"): _OTHER_FILES,
    (FN, "unparsed-text"): _OTHER_FILES,
    (FN, "unparsed-text-lines"): _OTHER_FILES,
    (FN, "unparsed-text-available"): _OTHER_FILES,
    (FN, "json-doc"): _OTHER_FILES,
    (FN, "uri-collection"): _OTHER_FILES,
    (FN, "environment-variable"): _ENVIRONMENT,
    (FN, "available-environment-variables"): _ENVIRONMENT,
    (FN, "random-number-generator"): "evaluating a rule again must give the same outcome",
    (FN, "transform"): _OTHER_CODE,
    (FN, "load-xquery-module"): _OTHER_CODE,
    (FN, "function-lookup"): "it could find functions that reach outside",
    (FN, "put"): "messages are stored by `do enqueue` and in no other way",
}
"""Functions with access to anything but messages, each with the reason why a rule may not call it."""

REFUSED_HINTS: dict[FunctionName, str] = {
    (FN, "doc"): "load the document into a collection and read it with collection(name)",
    (FN, "json-doc"): "load the document into a collection and read it with collection(name)",
    (FN, "unparsed-text"): "load the document into a collection and read it with collection(name)",
    (FN, "uri-collection"): "read a collection with collection(name)",
    (FN, "random-number-generator"): 'qs:property("demaq:id") differs for every message',
    (FN, "function-lookup"): "name the function: upper-case#1",
    (FN, "put"): "do enqueue MESSAGE into QUEUE",
}

_ON_CONTEXT_ITEM = _words(
    """
    base-uri data document-uri generate-id has-children last local-name name namespace-uri nilled node-name
    normalize-space number path position root string string-length
    """
)
_IN_CONTEXT_TREE = _words("element-with-id id idref lang")

FOCUS_FUNCTIONS = frozenset([(FN, name, 0) for name in _ON_CONTEXT_ITEM] + [(FN, name, 1) for name in _IN_CONTEXT_TREE])
"""Functions that use the context item (or its position) if called with so many arguments."""


def is_known(uri: str, local: str) -> bool:
    return (uri, local) in ARITIES or (uri, local) == CONCAT


def takes(uri: str, local: str, arity: int) -> bool:
    """Return whether a known function may be called with so many arguments."""
    if (uri, local) == CONCAT:
        return 2 <= arity <= MANY
    return arity in ARITIES.get((uri, local), ())


def arity_in_words(counts: tuple[int, ...]) -> str:
    """Return `no argument`, `1 argument`, `1 or 2 arguments`, `1 to 3 arguments`."""
    if counts == (0,):
        return "no argument"
    if len(counts) == 1:
        return "1 argument" if counts[0] == 1 else f"{counts[0]} arguments"
    if len(counts) == 2:
        return f"{counts[0]} or {counts[1]} arguments" if counts != (0, 1) else "no argument or 1"
    return f"{counts[0]} to {counts[-1]} arguments"


def allowed_in_words(uri: str, local: str) -> str:
    """Return how many arguments a known function takes, for a message."""
    return "2 arguments or more" if (uri, local) == CONCAT else arity_in_words(ARITIES[(uri, local)])
