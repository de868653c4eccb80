[function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else ("N", "0") },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else try { (array { $d:message ! (if (($d:state?slice?*)[/creditResult] and ($d:state?slice?*)[/capacityResult] and not(($d:state?slice?*)[/offer])) then ("F␞0",
$d:state?d?enqueue($d:record, $d:state, "E␞0␞0␞customer", "0", "customer", document { <offer vip="{ ($d:state?d?value($d:record, "vip") ! xs:boolean(.)) }">{ $d:state?d?value($d:record, "requestID") }</offer> }, map { "vip": $d:state?d?explicit("vip", "boolean", true(), "1") })) else
()) }?*) } catch * { $d:state?d?failure("0", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else ("N", "1") },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else try { (array { $d:message ! (
if (($d:state?slice?*)/offer) then ("F␞1", $d:state?d?reset("1", "2", "requests", $d:state?d?value($d:record, "requestID"))) else ()) }?*) } catch * { $d:state?d?failure("1", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return try { (array { $d:message ! (
if (true()) then ("F␞2", $d:state?d?enqueue($d:record, $d:state, "E␞2␞3␞customer", "3", "customer", document { <log>{ $d:message//requestID }</log> }, map {  })) else ()) }?*) } catch * { $d:state?d?failure("2", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:message, $d:known) { $d:message ! fn:data((
//requestID)) ! xs:string(.) }]

(: crm :) declare function local:guarded($run, $batch, $nodes, $rules, $state) { $run($batch, $nodes, $rules, $state) }; [let $run := function($batch, $nodes, $rules, $state) { $state?d?result(for $r at $number in $batch/b/r let $m := $state?d?node($r, $number, $nodes) return ("M", $rules(1)($r, $m, $state) , $rules(2)($r, $m, $state) , $rules(3)($r, $m, $state)), "␞") } return function($batch, $nodes, $rules, $state) { local:guarded($run, $batch, $nodes, $rules, $state) }]

(: customer :) declare function local:guarded($run, $batch, $nodes, $rules, $state) { $run($batch, $nodes, $rules, $state) }; [let $run := function($batch, $nodes, $rules, $state) { $state?d?result(for $r at $number in $batch/b/r let $m := $state?d?node($r, $number, $nodes) return ("M", $rules(1)($r, $m, $state) , $rules(2)($r, $m, $state)), "␞") } return function($batch, $nodes, $rules, $state) { local:guarded($run, $batch, $nodes, $rules, $state) }]
