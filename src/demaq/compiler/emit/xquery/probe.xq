module namespace d = "demaq:runtime";

(: Describe values of probes, as fields for `evaluation/saxon/rule_probe.py`: how many items there are, the effective
   boolean value, and the first items, each with its kind, its name, its text and its markup. :)

declare namespace err = "http://www.w3.org/2005/xqt-errors";

declare function d:described($value as item()*, $items as xs:integer, $length as xs:integer) as xs:string* {
  let $shown := subsequence($value, 1, $items)
  return ("V", string(count($value)), d:truth($value), string(count($shown)), $shown ! d:item-fields(., $length))
};

declare function d:truth($value as item()*) as xs:string {
  try { if ($value) then "true" else "false" } catch * { "" }
};

declare function d:item-fields($item as item(), $length as xs:integer) as xs:string+ {
  typeswitch ($item)
    case element()
      return ("element", d:clark-name($item), d:cut(string($item), $length), d:cut(serialize($item), $length))
    case attribute()
      return ("attribute", d:clark-name($item), d:cut(string($item), $length), name($item) || '="' || d:cut(string($item), $length) || '"')
    case document-node()
      return ("document", ($item/* ! d:clark-name(.), "")[1], d:cut(string($item), $length), d:cut(serialize($item), $length))
    case text() return ("text", "", d:cut(string($item), $length), d:cut(serialize($item), $length))
    case node() return ("node", "", d:cut(string($item), $length), d:cut(serialize($item), $length))
    case xs:anyAtomicType return (d:type-of($item), "", d:cut(string($item), $length), "")
    default return ("function", "", "", d:cut(serialize($item, map { "method": "adaptive" }), $length))
};

declare function d:cut($text as xs:string, $length as xs:integer) as xs:string {
  if (string-length($text) > $length) then substring($text, 1, $length) || "…" else $text
};

declare function d:clark-name($node as node()) as xs:string {
  "Q{" || namespace-uri($node) || "}" || local-name($node)
};

declare function d:type-of($value as xs:anyAtomicType) as xs:string {
  typeswitch ($value)
    case xs:untypedAtomic return "untyped"
    case xs:anyURI return "xs:anyURI"
    case xs:string return "xs:string"
    case xs:boolean return "xs:boolean"
    case xs:integer return "xs:integer"
    case xs:decimal return "xs:decimal"
    case xs:double return "xs:double"
    case xs:float return "xs:float"
    case xs:dateTime return "xs:dateTime"
    case xs:date return "xs:date"
    case xs:time return "xs:time"
    case xs:dayTimeDuration return "xs:dayTimeDuration"
    case xs:yearMonthDuration return "xs:yearMonthDuration"
    case xs:duration return "xs:duration"
    case xs:QName return "xs:QName"
    default return "xs:anyAtomicType"
};

declare function d:failed($code as xs:QName?, $description as xs:string?) as xs:string+ {
  let $uri := string(namespace-uri-from-QName($code))
  let $name := string(local-name-from-QName($code))
  return ("X", if ($uri = "http://www.w3.org/2005/xqt-errors") then $name else "Q{" || $uri || "}" || $name, string($description))
};
