module namespace l = "urn:library";

declare default element namespace "urn:shop";
declare namespace s = "urn:style";

declare variable $l:rate as xs:decimal := 1.19;

declare function l:total($order as element()) as xs:decimal {
  sum($order/item/@price) * $l:rate
};

declare function l:line($item) {
  <line s:style="{$item/@style}">{$item/name => string()}</line>
};

declare function l:safe($n) {
  try { xs:integer($n) } catch err:FORG0001 { 0 }
};
