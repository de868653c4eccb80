[function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (try { $d:message ! (fn:boolean(($d:message/order))) } catch * { fn:true() }) then ("N", "0", try { (array { $d:state?d?lookup($d:state?d?keys($d:message ! (
$d:message//customerID))) }?*) } catch * { "1", "*" }) else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return try { (array { $d:message ! (
if (/order) then ("F␞0",
$d:state?d?enqueue($d:record, $d:state, "E␞0␞0␞answers", "0", "answers", document { <n>{ count(($d:state?found(1)?*)[//customerID = $d:message//customerID]) }</n> }, map {  })) else
()) }?*) } catch * { $d:state?d?failure("0", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (try { $d:message ! (fn:boolean((
$d:message//check))) } catch * { fn:true() }) then ("N", "1", try { (array { $d:state?d?lookup($d:state?d?keys($d:message ! (
$d:message/order/@id))) }?*) } catch * { "1", "*" }) else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return try { (array { $d:message ! (
if (//check) then ("F␞1", (
for $i in ($d:state?found(1)?*)
where $i/invoice/@open = "true" and $i//orderID = /order/@id return
$d:state?d?enqueue($d:record, $d:state, "E␞1␞1␞answers", "1", "answers", document { <open>{ $i//total }</open> }, map {  }))) else
()) }?*) } catch * { $d:state?d?failure("1", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (try { $d:message ! (fn:boolean((
$d:message//check))) } catch * { fn:true() }) then ("N", "2", try { (array { $d:state?d?lookup($d:state?d?keys($d:message ! (

let $id := $d:message/order/@id return
$id))) }?*) } catch * { "1", "*" }) else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return try { (array { $d:message ! (
if (//check) then ("F␞2", (
let $invoices := ($d:state?found(1)?*)/invoice
let $id := /order/@id return
$d:state?d?enqueue($d:record, $d:state, "E␞2␞2␞answers", "2", "answers", document { <found>{ $invoices[orderID = $id]/total }</found> }, map {  }))) else
()) }?*) } catch * { $d:state?d?failure("2", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else if (try { $d:message ! (fn:boolean((
$d:message//check))) } catch * { fn:true() }) then ("N", "3", try { (array { $d:state?d?lookup($d:state?d?keys($d:message !
$d:state?d?value($d:record, "customer"))) }?*) } catch * { "1", "*" }) else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else try { (array { $d:message ! (
if (($d:state?slice?*)/order and //check) then ("F␞3",
$d:state?d?enqueue($d:record, $d:state, "E␞3␞3␞answers", "3", "answers", document { <x>{ ($d:state?found(1)?*)[/invoice/customer/@id = $d:state?d?value($d:record, "customer")] }</x> }, map {  })) else
()) }?*) } catch * { $d:state?d?failure("3", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (try { $d:message ! (fn:boolean((
$d:message//all))) } catch * { fn:true() }) then ("N", "4") else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return try { (array { $d:message ! (if (//all) then ("F␞4",
$d:state?d?enqueue($d:record, $d:state, "E␞4␞4␞answers", "4", "answers", document { <n>{ count($d:state?d?queue($d:state, "invoices")[position() < 10]), $d:state?d?collection($d:state, fn:string("rates"))//rate }</n> }, map {  })) else
()) }?*) } catch * { $d:state?d?failure("4", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (try { $d:message ! (fn:boolean((
$d:message//which))) } catch * { fn:true() }) then ("N", "5") else () },

function($d:record, $d:node, $d:state) { let $d:message := $d:state?message return try { (array { $d:message ! (if (//which) then ("F␞5",
$d:state?d?enqueue($d:record, $d:state, "E␞5␞5␞answers", "5", "answers", document { <n>{ count($d:state?d?queue($d:state, fn:string((//which)))) }</n> }, map {  })) else
()) }?*) } catch * { $d:state?d?failure("5", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:record, $d:node, $d:state) { let $d:message := $d:node return if (fn:not(fn:contains($d:record/@s, "|0|"))) then () else try { (array { $d:message ! (
if ($d:message/forget) then ("F␞6", (
$d:state?d?reset("6", "6", "customers", $d:state?d?value($d:record, "customer")), $d:state?d?reset("6", "7", "customers", $d:state?d?explicit("customer", "string", ($d:message/forget/other), "7")))) else
()) }?*) } catch * { $d:state?d?failure("6", $err:code, $err:description, $err:value, $err:module, $err:line-number, $err:column-number) } },

function($d:message, $d:known) { $d:message ! fn:data((
//customerID)) ! xs:string(.) },

function($d:message) { $d:message ! (
//customerID) },

function($d:message) { $d:message ! (
//orderID) },

function($d:message) { $d:message ! (
/
invoice/
orderID) },

function($d:message) { $d:message ! (
/invoice/customer/@id) }]

(: orders :) declare function local:guarded($run, $batch, $nodes, $rules, $state) { $run($batch, $nodes, $rules, $state) }; [let $run := function($batch, $nodes, $rules, $state) { $state?d?result(for $r at $number in $batch/b/r let $m := $state?d?node($r, $number, $nodes) return ("M", $rules(1)($r, $m, $state) , $rules(2)($r, $m, $state) , $rules(3)($r, $m, $state) , $rules(4)($r, $m, $state) , $rules(5)($r, $m, $state) , $rules(6)($r, $m, $state) , $rules(7)($r, $m, $state)), "␞") } return function($batch, $nodes, $rules, $state) { local:guarded($run, $batch, $nodes, $rules, $state) }]

(: invoices :) declare function local:guarded($run, $batch, $nodes, $rules, $state) { $run($batch, $nodes, $rules, $state) }; [let $run := function($batch, $nodes, $rules, $state) { $state?d?result(for $r at $number in $batch/b/r let $m := $state?d?node($r, $number, $nodes) return ("M", $rules(1)($r, $m, $state) , $rules(2)($r, $m, $state)), "␞") } return function($batch, $nodes, $rules, $state) { local:guarded($run, $batch, $nodes, $rules, $state) }]
