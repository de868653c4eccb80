[function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (if ($d:message/o:order) then ("F␞0", $d:state?d?enqueue($d:record, $d:state, "E␞0␞0␞out", "0", "out", document { <root/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("0", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message//item) then ("F␞1", $d:state?d?enqueue($d:record, $d:state, "E␞1␞1␞out", "1", "out", document { <element/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("1", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message//@urgent) then ("F␞2", $d:state?d?enqueue($d:record, $d:state, "E␞2␞2␞out", "2", "out", document { <attribute/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("2", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message/o:order/o:type = "rush") then ("F␞3", $d:state?d?enqueue($d:record, $d:state, "E␞3␞3␞out", "3", "out", document { <value/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("3", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message//@kind = ("a", "b")) then ("F␞4", $d:state?d?enqueue($d:record, $d:state, "E␞4␞4␞out", "4", "out", document { <values/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("4", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message//refund or $d:message//return[@reason]) then ("F␞5", $d:state?d?enqueue($d:record, $d:state, "E␞5␞5␞out", "5", "out", document { <either/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("5", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message/o:order) then if (o:order/o:lines[count(o:line) > 3]) then ("F␞6", $d:state?d?enqueue($d:record, $d:state, "E␞6␞6␞out", "6", "out", document { <nested/> }, map {  })) else () else ()) }?*) } catch * { $d:state?d?failure("6", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if (not($d:message//closed)) then ("F␞7", $d:state?d?enqueue($d:record, $d:state, "E␞7␞7␞out", "7", "out", document { <open/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("7", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if ($d:message/o:order[o:customer/@vip]) then ("F␞8", $d:state?d?enqueue($d:record, $d:state, "E␞8␞8␞out", "8", "out", document { <message/> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("8", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } }]

(: in :) declare function local:guarded($run, $batch, $nodes, $rules, $state) { $run($batch, $nodes, $rules, $state) }; [let $roots := map { QName("urn:orders", "order"): (1) }, $values0 := map { "rush": (4) }, $values1 := map { "a": (5), "b": (5) } return let $run := function($batch, $nodes, $rules, $state) { $state?d?result(for $r at $number in $batch/b/r let $m := $state?d?node($r, $number, $nodes) return ("M", sort(distinct-values((8, $roots(node-name($m/*)), $m//Q{urn:orders}type ! $values0(string()), $m//@Q{}kind ! $values1(string()), (if (exists($m//Q{}item)) then (2) else ()), (if (exists($m//Q{}refund)) then (6) else ()), (if (exists($m//Q{urn:orders}line)) then (7) else ()), (if (exists($m//Q{urn:orders}customer)) then (9) else ()), (if (exists($m//@Q{}urgent)) then (3) else ()), (if (exists($m//@Q{}reason)) then (6) else ())))) ! $rules(.)($r, $m, $state)), "␞") } return function($batch, $nodes, $rules, $state) { local:guarded($run, $batch, $nodes, $rules, $state) }]
