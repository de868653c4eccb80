module namespace d = "demaq:runtime";

(: Update expressions on copies, in plain XQuery. What updates an author's expression asks for is a sequence of maps, the
   pending update list; a copy is built anew with all of them, once.

     o  what: one of the numbers below     t  the node it is about
     c  nodes, a text, or a name           s  the place in the author's program

   Numbers, and maps as sets, because texts compare as the author's default collation says. Copying costs what the copy
   weighs, updates cost what they are and what lies above them, and nothing is looked at twice. :)

declare namespace err = "http://www.w3.org/2005/xqt-errors";
declare namespace array = "http://www.w3.org/2005/xpath-functions/array";
declare namespace map = "http://www.w3.org/2005/xpath-functions/map";

(: 1 into   2 as first into   3 as last into   4 before   5 after   6 attributes   7 delete   8 replace node
   9 replace the text of an element   10 replace the value of another node   11 rename :)

declare function d:update-error($code, $description, $site) {
  error(QName("http://www.w3.org/2005/xqt-errors", "err:" || $code), $description, $site)
};

(: --- the copy --------------------------------------------------------------------------------------------------- :)

declare function d:copied($source, $preserve, $site) {
  if (count($source) ne 1 or not($source instance of node())) then
    d:update-error("XUTY0013", "what is copied must be one node", $site)
  else
    typeswitch ($source)
      case document-node() return document { $source/node() }
      case element() return
        element { node-name($source) } {
          if ($preserve) then d:bindings($source) else (),
          $source/@*,
          $source/node()
        }
      case attribute() return attribute { node-name($source) } { string($source) }
      case text() return text { string($source) }
      case comment() return comment { string($source) }
      case processing-instruction() return processing-instruction { name($source) } { string($source) }
      default return d:update-error("XUTY0013", "a namespace node cannot be copied", $site)
};

(: the same if the copy cannot be observed: the original :)
declare function d:original($source, $preserve, $site) {
  if (count($source) eq 1 and ($source instance of element() or $source instance of document-node())) then $source
  else d:copied($source, $preserve, $site)
};

(: the namespaces in scope of an element :)
declare function d:bindings($element) {
  for $prefix in in-scope-prefixes($element)
  return if ($prefix eq "xml") then () else namespace { $prefix } { namespace-uri-for-prefix($prefix, $element) }
};

(: --- what is asked for ------------------------------------------------------------------------------------------ :)

declare function d:insert-into($how, $content, $target, $site) {
  if (empty($target)) then d:no-target($site)
  else if (count($target) ne 1 or not($target instance of element() or $target instance of document-node())) then
    d:update-error("XUTY0005", "nodes are inserted into one element or document", $site)
  else
    let $content := d:ordered(d:content($content, $site), $site)
    return
      if (exists($content?attributes) and $target instance of document-node()) then
        d:update-error("XUTY0022", "a document has no attributes", $site)
      else (
        d:new-attributes($content?attributes, $target, $site),
        if (empty($content?nodes)) then () else map { "o": $how, "t": $target, "c": $content?nodes, "s": $site }
      )
};

declare function d:insert-beside($how, $content, $target, $site) {
  if (empty($target)) then d:no-target($site)
  else if (count($target) ne 1 or not(d:is-child($target))) then
    d:update-error("XUTY0006", "nodes are inserted before or after one element, text, comment or processing instruction", $site)
  else if (empty($target/..)) then
    d:update-error("XUDY0029", "the node has no parent, so nothing can stand beside it", $site)
  else
    let $content := d:ordered(d:content($content, $site), $site)
    return
      if (exists($content?attributes) and $target/.. instance of document-node()) then
        d:update-error("XUDY0030", "a document has no attributes", $site)
      else (
        d:new-attributes($content?attributes, $target/.., $site),
        if (empty($content?nodes)) then () else map { "o": $how, "t": $target, "c": $content?nodes, "s": $site }
      )
};

declare function d:no-target($site) {
  d:update-error("XUDY0027", "there is no node to change", $site)
};

declare function d:is-child($node) {
  $node instance of element() or $node instance of text() or $node instance of comment()
    or $node instance of processing-instruction()
};

declare function d:new-attributes($attributes, $element, $site) {
  if (empty($attributes)) then ()
  else (
    $attributes ! d:expect-binding(node-name(.), $element, $site),
    map { "o": 6, "t": $element, "c": $attributes, "s": $site }
  )
};

(: a name must not use a prefix that means something else where it comes to stand; an attribute without one uses none :)
declare function d:expect-binding($name, $element, $site) {
  if (string(prefix-from-QName($name)) eq "" ) then () else d:expect-prefix($name, $element, $site)
};

declare function d:expect-prefix($name, $element, $site) {
  let $prefix := string(prefix-from-QName($name))
  let $known := string(namespace-uri-for-prefix($prefix, $element))
  return
    if ($known eq "" or $known eq string(namespace-uri-from-QName($name))) then ()
    else d:update-error("XUDY0023", "the prefix """ || $prefix || """ stands for " || $known || " there", $site)
};

(: content as an element constructor takes it: attributes, and other nodes; values side by side are one text :)
declare function d:content($content, $site) {
  let $nodes :=
    if (every $item in $content satisfies $item instance of node() and not($item instance of document-node())) then $content
    else
      for tumbling window $window in $content ! (if (. instance of array(*)) then array:flatten(.) else .)
        start $first when true()
        end $last next $next when not($last instance of xs:anyAtomicType and $next instance of xs:anyAtomicType)
      return
        typeswitch ($first)
          case xs:anyAtomicType return text { string-join($window ! string(), " ") }
          case document-node() return $first/node()
          case node() return $first
          default return d:update-error("XQTY0105", "a function cannot be content", $site)
  let $attributes := $nodes[. instance of attribute()]
  return
    if (empty($attributes)) then map { "attributes": (), "nodes": $nodes, "all": () }
    else map { "attributes": $attributes, "nodes": $nodes[not(. instance of attribute())], "all": $nodes }
};

declare function d:ordered($content, $site) {
  if (some $item in subsequence($content?all, 1, count($content?attributes)) satisfies not($item instance of attribute())) then
    d:update-error("XUTY0004", "attributes come before other nodes", $site)
  else $content
};

(: what has no parent cannot be taken away from it :)
declare function d:delete($targets, $site) {
  for $target in $targets
  return
    if (not($target instance of node())) then d:update-error("XUTY0007", "only nodes can be deleted", $site)
    else if (empty($target/..)) then ()
    else map { "o": 7, "t": $target, "c": (), "s": $site }
};

declare function d:replace-node($target, $replacement, $site) {
  if (empty($target)) then d:no-target($site)
  else if (count($target) ne 1 or not(d:is-child($target) or $target instance of attribute())) then
    d:update-error("XUTY0008", "one element, attribute, text, comment or processing instruction can be replaced", $site)
  else if (empty($target/..)) then
    d:update-error("XUDY0009", "the node has no parent, so nothing can take its place", $site)
  else
    let $content := d:content($replacement, $site)
    return
      if ($target instance of attribute()) then
        if (exists($content?nodes)) then d:update-error("XUTY0011", "an attribute is replaced by attributes", $site)
        else (
          $content?attributes ! d:expect-binding(node-name(.), $target/.., $site),
          map { "o": 8, "t": $target, "c": $content?attributes, "s": $site }
        )
      else if (exists($content?attributes)) then
        d:update-error("XUTY0010", "an attribute cannot take the place of another node", $site)
      else map { "o": 8, "t": $target, "c": $content?nodes, "s": $site }
};

declare function d:replace-value($target, $value, $site) {
  if (empty($target)) then d:no-target($site)
  else
    let $text := try { string-join(data($value) ! string(), " ") } catch * { error($err:code, $err:description, $site) }
    return
      typeswitch ($target)
        case element() return map { "o": 9, "t": $target, "c": $text, "s": $site }
        case attribute() | text() return map { "o": 10, "t": $target, "c": $text, "s": $site }
        case comment() return
          if (contains($text || "-", "--", "http://www.w3.org/2005/xpath-functions/collation/codepoint")) then
            d:update-error("XQDY0072", "a comment has no two hyphens in a row, and does not end with one", $site)
          else map { "o": 10, "t": $target, "c": $text, "s": $site }
        case processing-instruction() return
          if (contains($text, "?>", "http://www.w3.org/2005/xpath-functions/collation/codepoint")) then
            d:update-error("XQDY0026", "a processing instruction does not hold ?>", $site)
          else map { "o": 10, "t": $target, "c": $text, "s": $site }
        default return
          d:update-error("XUTY0008", "one element, attribute, text, comment or processing instruction has a value to replace", $site)
};

(: `$named` makes the new name of an element, an attribute or a processing instruction, as the author's place says :)
declare function d:rename($target, $named, $site) {
  typeswitch ($target)
    case empty-sequence() return d:no-target($site)
    case element() return
      let $name := d:new-name($named, 1, $site)
      return (d:expect-prefix($name, $target, $site), map { "o": 11, "t": $target, "c": $name, "s": $site })
    case attribute() return
      let $name := d:new-name($named, 2, $site)
      return (
        if (empty($target/..)) then () else d:expect-binding($name, $target/.., $site),
        map { "o": 11, "t": $target, "c": $name, "s": $site }
      )
    case processing-instruction() return
      map { "o": 11, "t": $target, "c": string(d:new-name($named, 3, $site)), "s": $site }
    default return
      d:update-error("XUTY0012", "one element, attribute or processing instruction can be renamed", $site)
};

declare function d:new-name($named, $kind, $site) {
  try { array { $named($kind) }?* } catch * { error($err:code, $err:description, $site) }
};

(: --- all of it at once ------------------------------------------------------------------------------------------ :)

(: copies with the updates; those that are about none of them are refused :)
declare function d:updated($copies, $updates, $site) {
  if (empty($updates)) then $copies
  else
    let $known := map:merge($copies ! map:entry(generate-id(.), true()))
    let $by-target := map:merge(
      for $update in $updates
      group by $id := generate-id($update?t) collation "http://www.w3.org/2005/xpath-functions/collation/codepoint"
      return
        if (map:contains($known, generate-id(root($update[1]?t)))) then map:entry($id, $update)
        else d:update-error("XUDY0014", "the node is in no copy that this expression makes", $update[1]?s)
    )
    return d:built($copies, $updates, $by-target, $site)
};

(: the same for updates of an original, which all lie in it :)
declare function d:changed($original, $updates, $site) {
  if (empty($updates)) then d:copied($original, true(), $site)
  else
    let $by-target := map:merge(
      for $update in $updates
      group by $id := generate-id($update?t) collation "http://www.w3.org/2005/xpath-functions/collation/codepoint"
      return map:entry($id, $update)
    )
    return d:built($original, $updates, $by-target, $site)
};

declare function d:built($copies, $updates, $by-target, $site) {
  let $above := map:merge($updates?t/ancestor::node() ! map:entry(generate-id(), ()))
  let $checks := (
    if (map:size($by-target) eq count($updates)) then () else d:expect-compatible($by-target),
    d:expect-names($updates, $by-target)
  )
  let $plan := map:merge(($by-target, $above))
  return
    if (exists($checks)) then () (: they return nothing, but must be evaluated :)
    else try { array { $copies ! d:itself(., $plan(generate-id(.)), $plan, $above) }?* }
    catch err:XQDY0025 { d:update-error("XUDY0021", "an element would have two attributes of one name", $site) }
    catch err:XQDY0102 { d:update-error("XUDY0024", "a prefix would stand for two namespaces", $site) }
};

(: no node is renamed twice, replaced twice, or given two values :)
declare function d:expect-compatible($by-target) {
  for $id in map:keys($by-target)
  let $updates := $by-target($id)
  where count($updates) gt 1
  return (
    d:expect-once($updates[?o eq 11], "XUDY0015", "renamed"),
    d:expect-once($updates[?o eq 8], "XUDY0016", "replaced"),
    d:expect-once($updates[?o eq 9 or ?o eq 10], "XUDY0017", "given a value")
  )
};

declare function d:expect-once($updates, $code, $what) {
  if (count($updates) lt 2) then ()
  else d:update-error($code, "the node is " || $what || " twice", $updates[2]?s)
};

(: what comes to stand on one element must agree about prefixes, and no two attributes have one name; also where the
   element is deleted in the end :)
declare function d:expect-names($updates, $by-target) {
  for $update in $updates
  where $update?o eq 6 or $update?o eq 11 or ($update?o eq 8 and $update?t instance of attribute())
  let $element := if ($update?t instance of attribute()) then $update?t/.. else $update?t
  where $element instance of element()
  group by $id := generate-id($element) collation "http://www.w3.org/2005/xpath-functions/collation/codepoint"
  let $names := $update ! (if (?o eq 11) then ?c else ?c ! node-name(.))
  return (
    if (count($names) lt 2) then ()
    else
      let $bound := $names[string(prefix-from-QName(.)) ne ""]
      let $prefixes := map:merge($bound ! map:entry(string(prefix-from-QName(.)), ()))
      let $bindings := map:merge($bound ! map:entry(prefix-from-QName(.) || " " || namespace-uri-from-QName(.), ()))
      return
        if (map:size($prefixes) eq map:size($bindings)) then ()
        else d:update-error("XUDY0024", "a prefix would stand for two namespaces", $update[last()]?s),
    let $attributes := (
      $element[1]/@* ! d:attribute-names(., $by-target(generate-id(.))),
      $update[?o eq 6]?c ! node-name(.)
    )
    return
      if (map:size(map:merge($attributes ! map:entry(., ()))) eq count($attributes)) then ()
      else d:update-error("XUDY0021", "an element would have two attributes of one name", $update[last()]?s)
  )
};

declare function d:attribute-names($attribute, $own) {
  if (empty($own)) then node-name($attribute)
  else if (exists($own[?o eq 8])) then $own[?o eq 8]?c ! node-name(.)
  else if (exists($own[?o eq 7])) then ()
  else ($own[?o eq 11]?c, node-name($attribute))[1]
};

(: a node of which, or below which, something is asked, with what comes to stand beside it :)
declare function d:walked($node, $own, $plan, $above) {
  if (empty($own)) then d:itself($node, (), $plan, $above)
  else (
    $own[?o eq 4]?c,
    if (exists($own[?o eq 8])) then $own[?o eq 8]?c
    else if (exists($own[?o eq 7])) then ()
    else d:itself($node, $own, $plan, $above),
    $own[?o eq 5]?c
  )
};

(: a node with what is asked of it and below it. A copy itself has no parent: nothing stands beside it, and it stays
   even where it is deleted :)
declare function d:itself($node, $own, $plan, $above) {
  typeswitch ($node)
    case element() return
      let $renamed := $own[?o eq 11]?c
      let $text := $own[?o eq 9]
      let $goes-on := map:contains($above, generate-id($node))
      return
        element { if (empty($renamed)) then node-name($node) else $renamed } {
          d:bindings($node),
          if ($goes-on) then ( (: a new name keeps its namespace there, even where its attribute goes :)
            for $name in $node/@* ! $plan(generate-id(.))[?o eq 11]?c
            where string(prefix-from-QName($name)) ne ""
            return namespace { prefix-from-QName($name) } { namespace-uri-from-QName($name) },
            for $attribute in $node/@*
            let $id := generate-id($attribute)
            return if (map:contains($plan, $id)) then d:walked($attribute, $plan($id), $plan, $above) else $attribute
          )
          else $node/@*,
          $own[?o eq 6]?c,
          if (exists($text)) then text { $text?c }
          else if ($goes-on or exists($own)) then (
            $own[?o eq 2]?c,
            if ($goes-on) then
              for $child in $node/node()
              let $id := generate-id($child)
              return if (map:contains($plan, $id)) then d:walked($child, $plan($id), $plan, $above) else $child
            else $node/node(),
            $own[?o eq 1]?c,
            $own[?o eq 3]?c
          )
          else $node/node()
        }
    case document-node() return
      document {
        $own[?o eq 2]?c,
        for $child in $node/node()
        let $id := generate-id($child)
        return if (map:contains($plan, $id)) then d:walked($child, $plan($id), $plan, $above) else $child,
        $own[?o eq 1]?c,
        $own[?o eq 3]?c
      }
    case attribute() return
      attribute { ($own[?o eq 11]?c, node-name($node))[1] } { ($own[?o eq 10]?c, string($node))[1] }
    case text() return text { ($own[?o eq 10]?c, string($node))[1] }
    case comment() return comment { ($own[?o eq 10]?c, string($node))[1] }
    case processing-instruction() return
      processing-instruction { ($own[?o eq 11]?c, name($node))[1] } { ($own[?o eq 10]?c, string($node))[1] }
    default return $node
};
