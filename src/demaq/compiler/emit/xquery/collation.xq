module namespace d = "demaq:runtime";

(: Collations that Saxon may be asked for: loading another one might end its process. Rules call it for those that they
   compute; `refuse_unknown_collation` in lower.py has the same list for those that are written down. :)

declare function d:collation($uri as xs:string?) as xs:string? {
  if (empty($uri)
      or $uri = ("http://www.w3.org/2005/xpath-functions/collation/codepoint",
                 "http://www.w3.org/2005/xpath-functions/collation/html-ascii-case-insensitive")
      or starts-with($uri, "http://www.w3.org/2013/collation/UCA"))
  then $uri
  else error(QName("http://www.w3.org/2005/xqt-errors", "err:FOCH0002"), "collation " || $uri || " is not supported")
};
