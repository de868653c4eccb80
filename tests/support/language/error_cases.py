"""Programs with mistakes: what is wrong, the code, the program with `¦` where the mistake is.

Each is a module with these parts before it, unless it brings its own queues.
"""

PARTS = """create queue a create queue b create queue log
create queue in kind incomingGateway create queue out kind outgoingGateway create queue timer kind echo
create property id as xs:string fixed queue a, b value //id
create property tag as xs:string queue a
create slicing s on id
create rule clean for s if (qs:slice()/done) then do reset
"""


def rule(body: str, target: str = "a") -> str:
    return f"create rule r for {target} {body}"


ENQUEUE = "do enqueue <x/> into b"

ERROR_CASES: list[tuple[str, str, str]] = [
    # syntax
    ("a statement that is not one", "DQ0101", "create ¦gueue c"),
    ("an if without else and without action", "DQ0101", rule("¦if (//x) then 5")),
    # variables
    ("a variable nobody binds", "DQ0201", rule("if (//x) then let $info := 1 return do enqueue ¦$infos into b")),
    ("a variable used in front of its binding", "DQ0201", rule("if (¦$x) then let $x := 1 return " + ENQUEUE)),
    ("a variable used behind its scope", "DQ0201", rule("if (some $y in //y satisfies $y) then do enqueue ¦$y into b")),
    ("a let variable in its own value", "DQ0201", rule("if (//x) then let $y := ¦$y return " + ENQUEUE)),
    (
        "a variable of another typeswitch case",
        "DQ0201",
        rule("if (typeswitch (//x) case $e as element() return $e default $d return ¦$e) then " + ENQUEUE),
    ),
    ("a catch variable outside catch", "DQ0201", rule("if (¦$err:code) then " + ENQUEUE)),
    ("a group variable that is not bound", "DQ0201", rule("if (for $x in //x group by $¦g return $x) then " + ENQUEUE)),
    ("a global variable used by an earlier one", "DQ0201", "declare variable $x := ¦$y; declare variable $y := 1;"),
    # prefixes
    ("an unknown prefix of an element", "DQ0202", rule("if (//¦o:order) then " + ENQUEUE)),
    ("an unknown prefix of a function", "DQ0202", rule("if (¦o:f()) then " + ENQUEUE)),
    ("an unknown prefix of a variable", "DQ0202", rule("if ($¦o:x) then " + ENQUEUE)),
    ("an unknown prefix of a queue", "DQ0202", rule("if (//x) then do enqueue <x/> into ¦o:b")),
    ("an unknown prefix in a queue's name as a string", "DQ0202", rule('if (qs:queue(¦"o:b")) then ' + ENQUEUE)),
    (
        "a prefix used outside the element that declares it",
        "DQ0202",
        rule('if (//x) then do enqueue <x><o:y xmlns:o="urn:o"/><¦o:z/></x> into b'),
    ),
    # queues
    ("enqueue into an unknown queue", "DQ0203", rule("if (//x) then do enqueue <x/> into ¦bb")),
    ("enqueue into a slicing", "DQ0203", rule("if (//x) then do enqueue <x/> into ¦s")),
    ("reading an unknown queue", "DQ0203", rule('if (qs:queue(¦"bb")) then ' + ENQUEUE)),
    ("reading an unknown queue with an arrow", "DQ0203", rule('if (¦"bb" => qs:queue()) then ' + ENQUEUE)),
    ("an unknown error queue of a rule", "DQ0203", rule("errorqueue ¦nope if (//x) then " + ENQUEUE)),
    ("an unknown error queue of a queue", "DQ0203", "create queue c errorqueue ¦nope"),
    ("a property on an unknown queue", "DQ0203", "create property p as xs:string queue a, ¦nope"),
    (
        "an unknown target of a timer",
        "DQ0203",
        rule('if (//x) then do enqueue <x/> into timer with timeout value 5 with target value ¦"nope"'),
    ),
    ("a rule for nothing", "DQ0204", rule("if (//x) then " + ENQUEUE, "¦nope")),
    ("reset of an unknown slicing", "DQ0205", rule("if (//x) then do reset ¦t key //id")),
    ("reset of a queue", "DQ0205", rule("if (//x) then do reset ¦a key //id")),
    # properties and collections
    (
        "a slicing on an unknown property",
        "DQ0206",
        "create slicing t on ¦nope create rule u for t if (1) then do reset",
    ),
    ("an unknown property read", "DQ0206", rule('if (qs:property(¦"ids")) then ' + ENQUEUE)),
    ("an unknown property set", "DQ0206", rule("if (//x) then do enqueue <x/> into b with ¦nope value 1")),
    ("an unknown system property", "DQ0206", rule('if (qs:property(¦"demaq:ids")) then ' + ENQUEUE)),
    (
        "an undeclared collection beside declared ones",
        "DQ0207",
        "create collection prices " + rule('if (collection(¦"price")) then ' + ENQUEUE),
    ),
    # twice
    ("a queue defined twice", "DQ0208", "create queue ¦a"),
    ("a slicing called like a queue", "DQ0208", "create slicing ¦a on id"),
    ("a queue called like a slicing", "DQ0208", "create queue ¦s"),
    ("a property defined twice", "DQ0208", "create property ¦id as xs:string queue a"),
    ("a rule defined twice", "DQ0208", "create rule ¦clean for a if (//x) then " + ENQUEUE),
    ("a collection defined twice", "DQ0208", "create collection c create collection ¦c"),
    ("a function declared twice", "DQ0209", "declare function local:f($x) { 1 }; declare function ¦local:f($y) { 2 };"),
    ("a variable declared twice", "DQ0209", "declare variable $x := 1; declare variable $¦x := 2;"),
    ("a prefix declared twice", "DQ0209", 'declare namespace p = "urn:p"; ¦declare namespace p = "urn:q";'),
    ("a setting declared twice", "DQ0209", "declare boundary-space strip; ¦declare boundary-space preserve;"),
    ("revalidation declared twice", "DQ0209", "declare revalidation skip; ¦declare revalidation skip;"),
    (
        "a decimal format declared twice",
        "DQ0209",
        "declare default decimal-format NaN = 'x'; declare decimal-format d NaN = 'x'; ¦declare decimal-format d;",
    ),
    ("revalidation that would need schemas", "DQ0314", "¦declare revalidation lax;"),
    ("strict revalidation", "DQ0314", "¦declare revalidation strict;"),
    (
        "an updating function with a return type",
        "DQ0315",
        "declare updating function local:f() as ¦empty-sequence() { do enqueue <x/> into b };",
    ),
    (
        "an annotated updating function with a return type",
        "DQ0315",
        "declare %updating function local:f($x as item()) as ¦xs:string* { do enqueue $x into b };",
    ),
    ("two parameters of one name", "DQ0209", "declare function local:f($x, ¦$x) { 1 };"),
    ("a for variable that counts itself", "DQ0209", rule("if (for $x at $¦x in //x return $x) then " + ENQUEUE)),
    ("a queue in the system's namespace", "DQ0210", "create queue ¦demaq:mine"),
    ("a property that means something on its queue", "DQ0210", "create property ¦Sender as xs:string queue out"),
    # functions and types
    ("an unknown function", "DQ0301", rule("if (¦exist(//x)) then " + ENQUEUE)),
    ("an unknown function behind an arrow", "DQ0301", rule("if (//x => ¦exist()) then " + ENQUEUE)),
    ("an unknown function by reference", "DQ0301", rule("if (sort(//x, (), ¦local:f#1)) then " + ENQUEUE)),
    ("an unknown constructor", "DQ0301", rule("if (¦xs:strin(//x)) then " + ENQUEUE)),
    ("too many arguments", "DQ0302", rule("if (¦exists(//x, //y)) then " + ENQUEUE)),
    (
        "too few arguments of a function of one's own",
        "DQ0302",
        "declare function local:f($x) { $x }; " + rule("if (¦local:f()) then " + ENQUEUE),
    ),
    ("collection without a name", "DQ0302", rule("if (¦collection()) then " + ENQUEUE)),
    ("reading a file", "DQ0303", rule('if (¦doc("x.xml")) then ' + ENQUEUE)),
    ("reading the environment", "DQ0303", rule('if (¦environment-variable("HOME")) then ' + ENQUEUE)),
    ("a refused function by reference", "DQ0303", rule("if (for-each(//x, ¦unparsed-text#1)) then " + ENQUEUE)),
    ("finding a function by name", "DQ0303", rule('if (¦function-lookup(xs:QName("fn:doc"), 1)) then ' + ENQUEUE)),
    ("chance", "DQ0303", rule("if (¦random-number-generator()?number > 0.5) then " + ENQUEUE)),
    ("an unknown type", "DQ0304", rule("if (//x instance of ¦xs:strin) then " + ENQUEUE)),
    ("a type without prefix", "DQ0304", rule("if (//x castable as ¦integer) then " + ENQUEUE)),
    ("a type from a schema", "DQ0304", rule("if (//x instance of ¦schema-element(x)) then " + ENQUEUE)),
    ("a property of unknown type", "DQ0304", "create property p as ¦xs:strings queue a"),
    ("a path in a function", "DQ0305", "declare function local:f() { ¦//x };"),
    ("the context item in a function", "DQ0305", "declare function local:f() { ¦./x };"),
    ("a relative step in an inline function", "DQ0305", rule("if (for-each(1, function($n) { ¦x })) then " + ENQUEUE)),
    ("name() in a function", "DQ0305", "declare function local:f() { ¦name() };"),
    ("a path in a global variable", "DQ0305", "declare variable $x := ¦/x;"),
    ("a function without prefix", "DQ0306", "declare function ¦f() { 1 };"),
    ("a function in the system's namespace", "DQ0306", "declare function ¦qs:f() { 1 };"),
    ("a property that is a list", "DQ0307", "create property p as ¦xs:NMTOKENS queue a"),
    ("a property of any type", "DQ0307", "create property p as ¦xs:anyAtomicType queue a"),
    # where functions of slices may stand
    ("qs:slice() in a queue's rule", "DQ0308", rule("if (¦qs:slice()) then " + ENQUEUE)),
    ("qs:slicekey() in a queue's rule", "DQ0308", rule("if (¦qs:slicekey() = 1) then " + ENQUEUE)),
    ("qs:slice() in a function", "DQ0308", "declare function local:f() { ¦qs:slice() };"),
    ("qs:slice() in a property", "DQ0308", "create property p as xs:string queue a value ¦qs:slicekey()"),
    ("a bare reset in a queue's rule", "DQ0308", rule("if (//x) then ¦do reset")),
    ("a bare reset in a function", "DQ0308", "declare updating function local:f() { ¦do reset };"),
    ("a property computed from a queue", "DQ0309", 'create property p as xs:string queue a value ¦qs:queue("b")//x'),
    (
        "a property computed from a collection",
        "DQ0309",
        'create property p as xs:string queue a value ¦collection("b")/x',
    ),
    (
        "a property computed from a queue through functions",
        "DQ0309",
        'declare function local:f() { local:g() }; declare function local:g() { qs:queue("b") };'
        " create property p as xs:string queue a value ¦local:f()//x",
    ),
    ("a global variable computed from a message", "DQ0310", "declare variable $x := ¦qs:message()//x;"),
    (
        "a global variable computed through a function",
        "DQ0310",
        "declare function local:f() { qs:message()//x }; declare variable $x := ¦local:f();",
    ),
    ("an external variable", "DQ0311", "¦declare variable $x external;"),
    ("a declared context item", "DQ0312", "¦declare context item := <x/>;"),
    ("an external function", "DQ0313", "¦declare function local:f() external;"),
    # rules and actions
    ("a rule without if", "DQ0401", rule("¦do enqueue <x/> into b")),
    ("a rule that is a FLWOR", "DQ0401", rule("¦for $x in //x return do enqueue $x into b")),
    ("a rule without action", "DQ0402", "create rule ¦idle for a if (//x) then 1 else 2"),
    ("a rule that does nothing in both branches", "DQ0402", "create rule ¦idle for a if (//x) then () else ()"),
    ("an action in a condition", "DQ0403", rule("if (¦do enqueue <x/> into b) then " + ENQUEUE)),
    ("an action in a let", "DQ0403", rule("if (//x) then let $x := ¦do enqueue <x/> into b return " + ENQUEUE)),
    (
        "an action in a where clause",
        "DQ0403",
        rule("if (//x) then for $x in //x where (¦do enqueue <x/> into b) return " + ENQUEUE),
    ),
    ("an action in an argument", "DQ0403", rule("if (//x) then (count((¦do enqueue <x/> into b)), 1) else 2") + " "),
    ("an action in a constructor", "DQ0403", rule("if (//x) then do enqueue <x>{¦do enqueue <y/> into b}</x> into b")),
    ("an action in a predicate", "DQ0403", rule("if (//x[¦do enqueue <y/> into b]) then " + ENQUEUE)),
    ("an action in try", "DQ0403", rule("if (//x) then (try { ¦do enqueue <y/> into b } catch * { () }) else ()")),
    (
        "an action in a property's value",
        "DQ0403",
        "create property p as xs:string queue a value (¦do enqueue <y/> into b)",
    ),
    (
        "an action in a function that is not updating",
        "DQ0403",
        "declare function local:f() { ¦do enqueue <x/> into b };",
    ),
    (
        "a call of an updating function in a condition",
        "DQ0403",
        "declare updating function local:f() { do enqueue <x/> into b }; " + rule("if (¦local:f()) then " + ENQUEUE),
    ),
    (
        "an updating function as a value",
        "DQ0403",
        "declare updating function local:f() { do enqueue <x/> into b }; "
        + rule("if (exists(¦local:f#0)) then " + ENQUEUE),
    ),
    ("an action and a value in one list", "DQ0404", rule("if (//x) then (do enqueue <x/> into b, ¦5)")),
    ("an action and a value in two branches", "DQ0404", rule("if (//x) then do enqueue <x/> into b else ¦5")),
    ("an updating function that returns a value", "DQ0404", "declare updating function ¦local:f() { 5 };"),
    ("a fixed property set", "DQ0405", rule("if (//x) then do enqueue <x/> into b with ¦id value 1")),
    (
        "a property set where it is not defined",
        "DQ0406",
        rule("if (//x) then do enqueue <x/> into b with ¦tag value 1"),
    ),
    ("Sender on a basic queue", "DQ0406", rule('if (//x) then do enqueue <x/> into b with ¦Sender value "x"')),
    ("timeout on a gateway", "DQ0406", rule("if (//x) then do enqueue <x/> into out with ¦timeout value 5")),
    ("a system property set", "DQ0407", rule("if (//x) then do enqueue <x/> into b with ¦demaq:id value 1")),
    (
        "a property set twice",
        "DQ0408",
        rule("if (//x) then do enqueue <x/> into a with tag value 1 with ¦tag value 2", "b"),
    ),
    ("a stored message changed", "DQ0409", rule("if (//x) then ¦delete node //x")),
    ("a stored message changed in the draft's way", "DQ0409", rule("if (//x) then ¦do replace value of //x with 5")),
    (
        "a stored message changed by a function",
        "DQ0409",
        "declare updating function local:f($x) { delete node $x }; " + rule("if (//x) then ¦local:f(//x)"),
    ),
    ("a property defined twice on one queue", "DQ0410", "create property p as xs:string queue a queue ¦a value //x"),
    ("a fixed property without value", "DQ0411", "create property p as xs:string fixed queue a value //x ¦queue b"),
    (
        "an update of the message inside modify",
        "DQ0412",
        rule("if (//x) then do enqueue (copy $c := . modify delete node ¦//x return $c) into b"),
    ),
    (
        "an update of qs:message() through a variable",
        "DQ0412",
        rule(
            "if (//x) then let $m := qs:message() return"
            " do enqueue (copy $c := $m modify rename node ¦$m/x as 'y' return $c) into b"
        ),
    ),
    (
        "an action inside modify",
        "DQ0413",
        rule("if (//x) then copy $c := /x modify ¦do enqueue <y/> into b return do enqueue $c into b"),
    ),
    (
        "an acting function inside modify",
        "DQ0413",
        "declare updating function local:f() { do enqueue <x/> into b }; "
        + rule("if (//x) then copy $c := /x modify ¦local:f() return do enqueue $c into b"),
    ),
    (
        "a modify that changes nothing",
        "DQ0414",
        rule("if (//x) then copy $c := /x modify ¦$c/y return do enqueue $c into b"),
    ),
    (
        "properties computed from each other",
        "DQ0415",
        'create property p as xs:string queue a value qs:property(¦"o")'
        ' create property o as xs:string queue a value qs:property(¦"p")',
    ),
    (
        "a property computed from itself",
        "DQ0415",
        'create property p as xs:string queue a value concat(qs:property(¦"p"), "x")',
    ),
    # queues and gateways
    ("enqueue into an incoming gateway", "DQ0501", rule("if (//x) then do enqueue <x/> into ¦in")),
    ("an interface of a basic queue", "DQ0502", 'create queue c endpoint ¦"http://x.invalid/"'),
    ("an extension of an echo queue", "DQ0502", "create queue c kind echo ¦using WS-Security"),
    (
        "a reliable transient gateway",
        "DQ0503",
        "create queue c kind outgoingGateway mode transient ¦using WS-ReliableMessaging",
    ),
    ("an incoming gateway for errors", "DQ0504", "create queue c errorqueue ¦in"),
    ("an echo queue for errors", "DQ0504", rule("errorqueue ¦timer if (//x) then " + ENQUEUE)),
    (
        "an incoming gateway behind a timer",
        "DQ0505",
        rule('if (//x) then do enqueue <x/> into timer with timeout value 5 with target value ¦"in"'),
    ),
    (
        "an echo queue behind a timer",
        "DQ0505",
        rule('if (//x) then do enqueue <x/> into timer with timeout value 5 with target value ¦"timer"'),
    ),
    ("a rule for an echo queue", "DQ0507", rule("if (//x) then " + ENQUEUE, "¦timer")),
    (
        "a rule for a slicing of echo queues",
        "DQ0507",
        "create property p as xs:string queue timer value //x create slicing t on p "
        + rule("if (1) then do reset", "¦t"),
    ),
    (
        "an extension given twice",
        "DQ0506",
        "create queue c kind outgoingGateway using WS-ReliableMessaging ¦using WS-ReliableMessaging",
    ),
    ("security without a policy", "DQ0511", "create queue c kind outgoingGateway ¦using WS-Security"),
    ("a queue for answers of a basic queue", "DQ0502", "create queue c replyto ¦a"),
    ("an address nobody knows", "DQ0508", 'create queue c kind outgoingGateway endpoint ¦"ftp://x.invalid/"'),
    ("an address without a host", "DQ0508", 'create queue c kind outgoingGateway endpoint ¦"http:///orders"'),
    (
        "a password in an address",
        "DQ0508",
        'create queue c kind outgoingGateway endpoint ¦"http://me:secret@x.invalid/"',
    ),
    ("a mail address without a domain", "DQ0508", 'create queue c kind incomingGateway endpoint ¦"mailto:orders"'),
    ("a path of the node's own", "DQ0508", 'create queue c kind incomingGateway endpoint ¦"http:/metrics"'),
    ("two gateways at one path", "DQ0509", 'create queue c kind incomingGateway endpoint ¦"http:/in/"'),
    ("answers to an incoming gateway", "DQ0510", "create queue c kind incomingGateway replyto ¦a"),
    ("answers into an incoming gateway", "DQ0510", "create queue c kind outgoingGateway replyto ¦in"),
    ("answers into an echo queue", "DQ0510", "create queue c kind outgoingGateway replyto ¦timer"),
    ("answers into a queue that is not there", "DQ0203", "create queue c kind outgoingGateway replyto ¦nope"),
    # files
    ("a schema that is missing", "DQ0601", "create queue c schema ¦missing.xsd"),
    ("a schema that is none", "DQ0601", "create queue c schema ¦plain.xml"),
    ("an interface that is missing", "DQ0602", "create queue c kind outgoingGateway interface ¦missing.wsdl"),
    ("an interface that is none", "DQ0602", "create queue c kind outgoingGateway interface ¦plain.xml"),
    (
        "a policy that is not well-formed",
        "DQ0603",
        "create queue c kind outgoingGateway using WS-Security policy ¦broken.xml",
    ),
    ("a policy that is missing", "DQ0603", "create queue c kind outgoingGateway using WS-Security policy ¦missing.xml"),
    (
        "an interface with a message that is not there",
        "DQ0602",
        "create queue c kind outgoingGateway interface ¦lost.wsdl",
    ),
    (
        "an interface of another kind of messages",
        "DQ0602",
        "create queue c kind outgoingGateway interface ¦encoded.wsdl",
    ),
    ("an interface whose import is missing", "DQ0602", "create queue c kind incomingGateway interface ¦importing.wsdl"),
    (
        "an interface that is not for SOAP",
        "DQ0602",
        "create queue c kind incomingGateway interface ¦get.wsdl port Here",
    ),
    ("several ports and no choice", "DQ0604", "create queue c kind incomingGateway interface ¦ports.wsdl"),
    ("an unknown port", "DQ0604", "create queue c kind outgoingGateway interface ¦supplier.wsdl port Nope"),
    ("a library that is missing", "DQ0605", '¦import module namespace p = "urn:p" at "missing.xqm";'),
    ("a library of another namespace", "DQ0606", '¦import module namespace p = "urn:p" at "library.xqm";'),
    ("a library that is none", "DQ0606", '¦import module namespace p = "urn:p" at "main.xq";'),
    ("an import without place", "DQ0607", '¦import module namespace p = "urn:p";'),
]

FILES = {
    "plain.xml": "<plain/>",
    "broken.xml": "<broken>",
    "main.xq": "1 + 1",
    "library.xqm": 'module namespace l = "urn:library"; declare function l:one() { 1 };'
    " declare %private function l:two() { 2 }; declare variable $l:three := 3;",
    "supplier.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/">'
    '<service name="s"><port name="Here"/></service></definitions>',
    "lost.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/">'
    '<portType name="P"><operation name="o"><input message="Lost"/></operation></portType></definitions>',
    "encoded.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/">'
    '<message name="M"/><portType name="P"><operation name="o"><input message="M"/></operation></portType>'
    '<binding name="B" type="P"><soap:binding style="rpc"/><operation name="o"><input><soap:body use="encoded"/></input>'
    '</operation></binding><service name="S"><port name="Here" binding="B"/></service></definitions>',
    "importing.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"><import location="missing.wsdl"/></definitions>',
    "get.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"><binding name="B" type="P"/>'
    '<service name="S"><port name="Here" binding="B"/></service></definitions>',
    "ports.wsdl": '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"><portType name="A"/><portType name="B"/></definitions>',
}
