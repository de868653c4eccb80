module namespace d = "demaq:runtime";

(: What generated rules call. Results are flat sequences: a letter for the kind of record, then its fields, which are
   strings, and documents of new messages, which stay nodes.

   What is called for every message has no types: checking them costs more than what it does. :)

declare namespace demaq = "http://www.demaq.net/demaq";
declare namespace err = "http://www.w3.org/2005/xqt-errors";
declare namespace array = "http://www.w3.org/2005/xpath-functions/array";
declare namespace map = "http://www.w3.org/2005/xpath-functions/map";

(: state :)

declare function d:queue($state as map(*), $name as xs:string) as document-node()* {
  let $queues := $state?queues
  return if ($name = "") then () else if (map:contains($queues, $name)) then $queues($name)?* else d:need("queue", $name)
};

declare function d:collection($state as map(*), $name as xs:string) as document-node()* {
  let $collections := $state?collections
  return if ($name = "") then () else if (map:contains($collections, $name)) then $collections($name)?* else d:need("collection", $name)
};

(: the error code says what is needed: it is all that Saxon keeps of an error during atomization :)
declare function d:need($kind as xs:string, $name as xs:string) as empty-sequence() {
  error(QName("demaq:runtime", "d:" || $kind || "." || string-join(string-to-codepoints($name) ! string(), "-")))
};

(: evaluates rules on messages with the state that was read for them, which evaluation/saxon/state_argument.py encodes;
   the numbers are passed to no other function, because there Saxon would count them from the first one :)
declare function d:jobs(
  $records as element()*, $nodes as array(*), $rules as array(*), $state as map(*), $documents as array(*),
  $codes as xs:string, $names as array(*)
) as item()* {
  let $codes := string-to-codepoints($codes) ! (. - 65536)
  let $lists := array {
    for $list in 1 to $codes[1]
    let $first := $codes[2 * $list + 1]
    return array { for $at in $first to $first + $codes[2 * $list + 2] - 1 return $documents($codes[$at]) }
  }
  let $jobs := 2 + 2 * $codes[1]
  let $records := array { $records }
  for $job in 1 to $codes[2]
  let $at := $codes[$jobs + $job]
  let $number := $codes[$at]
  let $record := $records($number)
  let $found := $codes[$at + 4]
  let $queues := $at + 5 + $found
  let $collections := $queues + 1 + 2 * $codes[$queues]
  let $others := $collections + 1 + 2 * $codes[$collections]
  let $known := if ($codes[$at + 2] eq 0) then $state else map:put($state, "message", $documents($codes[$at + 2]))
  let $known := if ($codes[$at + 3] eq 0) then $known else map:put($known, "slice", $lists($codes[$at + 3]))
  let $known :=
    if ($found eq 0) then $known
    else map:put($known, "found", array { for $n in 1 to $found return $lists($codes[$at + 4 + $n]) })
  let $known :=
    if ($codes[$queues] eq 0) then $known
    else
      map:put($known, "queues", map:merge(
        for $n in 1 to $codes[$queues]
        return map:entry($names($codes[$queues + 2 * $n - 1]), $lists($codes[$queues + 2 * $n]))
      ))
  let $known :=
    if ($codes[$collections] eq 0) then $known
    else
      map:put($known, "collections", map:merge(
        for $n in 1 to $codes[$collections]
        return map:entry($names($codes[$collections + 2 * $n - 1]), $lists($codes[$collections + 2 * $n]))
      ))
  let $known :=
    if ($codes[$others] eq 0) then $known
    else
      map:put($known, "others", array {
        for $n in 1 to $codes[$others]
        return array { $documents($codes[$others + 2 * $n - 1]), $documents($codes[$others + 2 * $n]) }
      })
  return ("M", $rules($codes[$at + 1])($record, d:node($record, $number, $nodes), $known))
};

(: a message as it came: in its record, or as a document :)
declare function d:node($record, $number, $nodes) {
  if (exists($record/m)) then $record/m else $nodes($number)
};

(: the fields as one string, then the documents; all at once, and nothing that is only evaluated when it is looked at :)
declare function d:result($records as item()*, $separator as xs:string) as array(*) {
  array { string-join($records[. instance of xs:string], $separator), $records[not(. instance of xs:string)] }
};

(: the message and its properties :)

(: a document of its own, whatever the author's prolog says about copies :)
declare function d:document($message as node()) as document-node() {
  if ($message instance of document-node()) then $message else document { $message/node() }
};

declare function d:now($record as element()) as xs:dateTime {
  xs:dateTime($record/@t)
};

declare function d:value($record as element(), $name as xs:string) as xs:string? {
  $record/p[@n = $name]/string()
};

declare function d:property($record as element(), $name as xs:string) as xs:anyAtomicType? {
  $record/p[@n = $name] ! d:cast(@t, string())
};

declare function d:property-of(
  $record as element(), $message as node()?, $state as map(*), $name as xs:string, $node as node()?
) as xs:anyAtomicType? {
  if (empty($node)) then () else
  let $root := root($node)
  return
    if ($root is $message) then d:property($record, $name)
    else
      let $found := $state?others?*[?1 is $root]
      return
        if (empty($found)) then
          error(QName("http://www.demaq.net/demaq", "demaq:propertyError"), "qs:property was asked about a document that is no message")
        else head($found)?2/r ! d:property(., $name)
};

(: a text of which a number or the like is made, which takes the square of its length :)
declare function d:short($value as xs:anyAtomicType) as xs:anyAtomicType {
  if (($value instance of xs:string or $value instance of xs:untypedAtomic) and string-length(string($value)) > 1000) then
    error(QName("http://www.demaq.net/demaq", "demaq:propertyError"), "a text of which a value is made has more than 1,000 characters")
  else $value
};

declare function d:cast($type as xs:string, $value as xs:anyAtomicType) as xs:anyAtomicType {
  switch ($type)
    case "string" return xs:string($value)
    case "boolean" return xs:boolean($value)
    case "decimal" return xs:decimal($value)
    case "integer" return xs:integer($value)
    case "double" return xs:double($value)
    case "float" return xs:float($value)
    case "dateTime" return xs:dateTime($value)
    case "dateTimeStamp" return xs:dateTimeStamp($value)
    case "date" return xs:date($value)
    case "time" return xs:time($value)
    case "duration" return xs:duration($value)
    case "dayTimeDuration" return xs:dayTimeDuration($value)
    case "yearMonthDuration" return xs:yearMonthDuration($value)
    case "anyURI" return xs:anyURI($value)
    case "hexBinary" return xs:hexBinary($value)
    case "base64Binary" return xs:base64Binary($value)
    case "gYear" return xs:gYear($value)
    case "gYearMonth" return xs:gYearMonth($value)
    case "gMonth" return xs:gMonth($value)
    case "gMonthDay" return xs:gMonthDay($value)
    case "gDay" return xs:gDay($value)
    case "untypedAtomic" return xs:untypedAtomic($value)
    case "normalizedString" return xs:normalizedString($value)
    case "token" return xs:token($value)
    case "language" return xs:language($value)
    case "NMTOKEN" return xs:NMTOKEN($value)
    case "Name" return xs:Name($value)
    case "NCName" return xs:NCName($value)
    case "ID" return xs:ID($value)
    case "IDREF" return xs:IDREF($value)
    case "ENTITY" return xs:ENTITY($value)
    case "long" return xs:long($value)
    case "int" return xs:int($value)
    case "short" return xs:short($value)
    case "byte" return xs:byte($value)
    case "nonNegativeInteger" return xs:nonNegativeInteger($value)
    case "positiveInteger" return xs:positiveInteger($value)
    case "nonPositiveInteger" return xs:nonPositiveInteger($value)
    case "negativeInteger" return xs:negativeInteger($value)
    case "unsignedLong" return xs:unsignedLong($value)
    case "unsignedInt" return xs:unsignedInt($value)
    case "unsignedShort" return xs:unsignedShort($value)
    case "unsignedByte" return xs:unsignedByte($value)
    default return string($value)
};

declare function d:type($value as xs:anyAtomicType) as xs:string {
  typeswitch ($value)
    case xs:string return "string"
    case xs:integer return "integer"
    case xs:boolean return "boolean"
    case xs:dayTimeDuration return "dayTimeDuration"
    case xs:dateTime return "dateTime"
    case xs:decimal return "decimal"
    case xs:double return "double"
    case xs:float return "float"
    case xs:date return "date"
    case xs:time return "time"
    case xs:anyURI return "anyURI"
    default return ""
};

(: equal values have equal keys :)
declare function d:key($value as xs:anyAtomicType) as xs:string {
  let $utc := xs:dayTimeDuration("PT0S")
  return
    typeswitch ($value)
      case xs:dateTime return string(adjust-dateTime-to-timezone($value, $utc))
      case xs:date return string(xs:dateTime(adjust-dateTime-to-timezone(xs:dateTime($value), $utc)))
      case xs:time
        return string(adjust-dateTime-to-timezone(dateTime(xs:date("1972-12-31"), $value), $utc))
      case xs:float return string(xs:double($value) + 0)
      case xs:double return string($value + 0)
      (: without a time zone they are in UTC :)
      case xs:gYear | xs:gYearMonth | xs:gMonth | xs:gMonthDay | xs:gDay return replace(string($value), "Z$", "")
      default return string($value)
};

declare function d:single($name, $values, $site) {
  if (count($values) le 1) then $values
  else
    let $distinct := distinct-values($values, "http://www.w3.org/2005/xpath-functions/collation/codepoint")
    return
      if (count($distinct) eq 1) then $distinct
      else
        error(QName("http://www.demaq.net/demaq", "demaq:propertyError"),
          "property " || $name || " has " || count($distinct) || " different values: "
          || string-join(subsequence($distinct, 1, 5) ! string(.), ", "), $site)
};

(: the value of a property by its expression :)
declare function d:computed($name, $value, $document, $known, $site) {
  try { array { d:single($name, $value($document, $known), $site) }?* }
  catch demaq:propertyError { error($err:code, $err:description, $site) }
  catch d:* { error($err:code, $err:description) }
  catch * {
    error(QName("http://www.demaq.net/demaq", "demaq:propertyError"), "property " || $name || ": " || $err:description, $site)
  }
};

(: what is known so far for a value that asks for more than the document, with how the message came here; also as a
   record, for functions that look at the message's properties :)
declare function d:context($known as map(*), $parent as element()) as map(*) {
  let $transport := $parent/p[not(@x) and (@n = ("demaq:arrived", "demaq:sender", "demaq:connection", "demaq:contentType") or starts-with(@n, "demaq:header."))]
  let $created := map:merge(
    ($known, $transport ! map:entry(string(@n), d:cast(@t, string())), map:entry("demaq:created", d:now($parent)))
  )
  let $record := element r {
    $parent/@q, $parent/@t,
    for $name in map:keys($created)
    where exists($created($name))
    return element p { attribute n { $name }, attribute t { d:type($created($name)) }, string($created($name)) }
  }
  return map:merge(($created, map:entry("demaq:functions", d:functions()), map:entry("demaq:record", $record)))
};

declare function d:functions() as map(*) {
  map { "now": d:now#1, "value": d:value#2, "property": d:property#2, "property-of": d:property-of#5 }
};

(: properties and index entries of a message from outside; those that its sender set are marked with x :)
declare function d:intake($record as element(), $intakes as map(*)) as xs:string* {
  try {
    array {
      let $document := d:document($record/m)
      let $intake := $intakes($record/@q)
      let $explicit := map:merge($record/p[@x] ! map:entry(string(@n), d:explicit(@n, @t, string(), "")))
      return
        if (empty($intake)) then ("P", d:property-fields($explicit), "0")
        else ("P", $intake?made($document, $explicit, $record, ""))
    }?*
  }
  catch * {
    d:failure("", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number)
  }
};

(: properties and index entries of a stored message under a changed program; those it keeps are marked with x, and with
   f where their type was another one; what fails is left out and named :)
declare function d:restate($record as element(), $intakes as map(*)) as xs:string* {
  let $document := d:document($record/m)
  let $intake := $intakes($record/@q)
  let $kept := fold-left($record/p[@x], map { "known": map {}, "failed": [] }, function($so-far, $p) {
    d:or-failed($so-far, string($p/@n), function($known) {
      map:put($known, string($p/@n),
        d:explicit($p/@n, $p/@t, if ($p/@f) then d:cast($p/@f, string($p)) else string($p), ""))
    })
  })
  let $all := fold-left($intake?each?*, $kept, function($so-far, $property) {
    let $name := $property?name
    return
      if ($name = $so-far?failed?*?1) then $so-far
      else d:or-failed($so-far, $name, function($known) {
        let $value := $property?value($document, $known, $record, "")
        return if (exists($value)) then map:put($known, $name, $value) else map:remove($known, $name)
      })
  })
  return (
    "P", d:property-fields($all?known),
    if (empty($intake)) then "0" else d:index-fields($document, $intake?indexes),
    string(array:size($all?failed)), $all?failed?* ! (?1, ?2)
  )
};

declare function d:or-failed($so-far as map(*), $name as xs:string, $put as function(map(*)) as map(*)) as map(*) {
  try { array { map:put($so-far, "known", $put($so-far?known)) }?* }
  catch * {
    map {
      "known": map:remove($so-far?known, $name),
      "failed": array:append($so-far?failed, [$name, d:words($err:description)])
    }
  }
};

declare function d:property-fields($properties as map(*)) as xs:string* {
  let $names := sort(map:keys($properties)[exists($properties(.))])
  return (
    string(count($names)),
    for $name in $names
    let $value := $properties($name)
    return ($name, d:type($value), string($value), d:key($value))
  )
};

(: how many properties there are, and the fields of those that were set and are none of the queue's own :)
declare function d:other-fields($explicit, $own, $count) {
  if (map:size($explicit) eq 0) then string($count)
  else
    let $fields := d:property-fields(map:remove($explicit, $own))
    return (string($count + xs:integer(head($fields))), tail($fields))
};

(: an index holds every value as a string, and as a number where it is one :)
declare function d:entries($values as item()*) as xs:string* {
  distinct-values(
    for $value in data($values)
    return ("s" || $value, if ($value castable as xs:double) then "n" || (xs:double($value) + 0) else ()),
    "http://www.w3.org/2005/xpath-functions/collation/codepoint")
};

(: the entries to ask for; a star where only a scan finds what is equal to the key :)
declare function d:keys($values as item()*) as xs:string* {
  distinct-values(
    for $value in data($values)
    return
      typeswitch ($value)
        case xs:string | xs:untypedAtomic | xs:anyURI return "s" || $value
        case xs:double | xs:float | xs:decimal return "n" || (xs:double($value) + 0)
        default return "*",
    "http://www.w3.org/2005/xpath-functions/collation/codepoint")
};

declare function d:lookup($keys as xs:string*) as xs:string* {
  string(count($keys)), $keys
};

declare function d:index-fields($document, $indexes) {
  let $found := for $index in $indexes?*, $entry in d:entries($index?value($document)) return ($index?number, $entry)
  return (string(count($found) idiv 2), $found)
};

(: actions :)

(: $fields are those that are known beforehand :)
declare function d:enqueue($record, $state, $fields, $site, $queue, $document, $explicit) {
  let $intake := $state?intakes($queue)
  return (
    $fields, $document,
    if (exists($intake)) then $intake?made($document, $explicit, $record, $site)
    else if (map:size($explicit) eq 0) then ("0", "0")
    else (d:property-fields($explicit), "0")
  )
};

(: what is enqueued as a document of its own: it may be a part of another one, or be enqueued twice :)
declare function d:message($body as item()*, $queue as xs:string, $site as xs:string) as document-node() {
  if (count($body) eq 1 and $body instance of element()) then document { $body }
  else if (count($body) eq 1 and $body instance of document-node() and count($body/*) eq 1 and empty($body/text()))
  then document { $body/node() }
  else
    error(QName("http://www.demaq.net/demaq", "demaq:enqueueError"),
      "a message is one element, but " || d:describe($body) || (if (count($body) gt 1) then " were" else " was")
      || " to be enqueued into " || $queue, $site)
};

declare function d:describe($items as item()*) as xs:string {
  if (count($items) ne 1) then (if (empty($items)) then "nothing" else count($items) || " items")
  else
    typeswitch ($items)
      case document-node() return "a document with " || count($items/*) || " elements"
        || (if (exists($items/text())) then " and text" else "")
      case text() return "a text node"
      case attribute() return "an attribute"
      case comment() return "a comment"
      case processing-instruction() return "a processing instruction"
      case node() return "a namespace"
      case function(*) return "a function, map or array"
      default return "the value " || substring(string($items), 1, 40)
};

declare function d:reset($rule as xs:string, $site as xs:string, $slicing as xs:string, $keys as xs:anyAtomicType*)
as xs:string* {
  let $distinct := distinct-values($keys, "http://www.w3.org/2005/xpath-functions/collation/codepoint")
  return
    if (count($distinct) eq 1) then ("R", $rule, $slicing, d:key($distinct))
    else
      error(QName("http://www.demaq.net/demaq", "demaq:propertyError"),
        "a reset of " || $slicing || " needs one key, but got " || count($distinct), $site)
};

declare function d:timeout($values as item()*, $site as xs:string) as xs:anyAtomicType? {
  for $value in d:single("timeout", data($values), $site)
  return
    if ($value instance of xs:dateTime or $value instance of xs:dayTimeDuration) then $value
    else if ($value castable as xs:dayTimeDuration) then xs:dayTimeDuration($value)
    else if ($value castable as xs:dateTime) then xs:dateTime($value)
    else if ($value castable as xs:double and xs:double($value) = xs:double($value)) then
      xs:dayTimeDuration("PT1S") * xs:double($value)
    else
      error(QName("http://www.demaq.net/demaq", "demaq:propertyError"),
        "timeout is a duration, a time or a number of seconds, but " || $value || " is neither", $site)
};

declare function d:explicit($name as xs:string, $type as xs:string, $values as item()*, $site as xs:string)
as xs:anyAtomicType? {
  if ($type = "timeout") then d:timeout($values, $site)
  else try {
    array {
      d:single($name, if ($type = "string") then data($values) ! string() else data($values) ! d:cast($type, d:short(.)), $site)
    }?*
  }
  catch d:* { error($err:code) }
  catch demaq:propertyError { error($err:code, $err:description, $site) }
  catch * {
    error(QName("http://www.demaq.net/demaq", "demaq:propertyError"), "property " || $name || " as xs:" || $type || ": " || $err:description, $site)
  }
};

(: what is said about an error, in characters that XML has: where Saxon shortens a text that it quotes, it may make others
   of those beyond U+FFFF, and its process ends when such a string is asked for :)
declare function d:words($description as xs:string?) as xs:string {
  codepoints-to-string(
    string-to-codepoints($description)[
      . = (9, 10, 13) or (. ge 32 and . le 55295) or (. ge 57344 and . le 65533) or (. ge 65536 and . le 1114111)
    ]
  )
};

declare function d:failure(
  $rule as xs:string, $code as xs:QName, $description as xs:string?, $value as item()*, $module as xs:string?,
  $line as xs:integer?, $column as xs:integer?
) as xs:string* {
  "X", $rule,
  (if (namespace-uri-from-QName($code) = "http://www.w3.org/2005/xqt-errors") then string(local-name-from-QName($code))
   else "Q{" || namespace-uri-from-QName($code) || "}" || local-name-from-QName($code)),
  d:words($description),
  string-join(for $item in $value[1] return
    if ($item instance of xs:anyAtomicType or $item instance of node()) then string($item) else "", " "),
  string($module), string($line), string($column)
};
