"""Every error and warning that checking an application can give, under a code that never changes its meaning.

DQ01 syntax, DQ02 names, DQ03 functions and types, DQ04 rules and properties, DQ05 queues and gateways, DQ06 files,
DQ07 what only compiling finds out; a warning has a 1 in front: DQ12 is about names again. The reference documentation
is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from demaq.language.recursion import NESTING_MAX


@dataclass(frozen=True, slots=True)
class DiagnosticCode:
    title: str
    explanation: str
    mending: str
    """An example of how to correct it."""


def severity(code: str) -> Literal["error", "warning"]:
    """Return whether a code is that of an error or of a warning."""
    return "warning" if code.startswith("DQ1") else "error"


CODES: dict[str, DiagnosticCode] = {
    "DQ0101": DiagnosticCode(
        "syntax error",
        "The text does not follow the grammar here. The rest of the application is read all the same, so that all "
        "mistakes are reported together; what the faulty statement would have declared counts as declared.",
        "create rule hello for greetings if (//greeting) then do enqueue <hello/> into answers",
    ),
    "DQ0102": DiagnosticCode(
        "nested too deeply",
        f"Constructs may be nested {NESTING_MAX:,} levels deep.",
        "let $part := … return …",
    ),
    "DQ0103": DiagnosticCode(
        "not UTF-8",
        "Programs are written in UTF-8. The place is the first byte that is not.",
        "iconv -f latin1 -t utf-8 orders.dmq",
    ),
    "DQ0104": DiagnosticCode(
        "file cannot be read",
        "A file or folder given on the command line is missing or unreadable, or a folder holds no .dmq file.",
        "demaq check orders.dmq",
    ),
    "DQ0201": DiagnosticCode(
        "unknown variable",
        "No for, let, parameter or declaration binds this variable here.",
        "let $orders := qs:queue() return $orders",
    ),
    "DQ0202": DiagnosticCode(
        "unknown prefix",
        "The prefix of a name stands for no namespace. Known without declaration are qs, demaq, xs, fn, map, array, "
        "math, err, xml, xsi and local.",
        'declare namespace o = "urn:orders"; in front of the statements',
    ),
    "DQ0203": DiagnosticCode(
        "unknown queue",
        "A queue is named that no module of the application creates.",
        "create queue shipping",
    ),
    "DQ0204": DiagnosticCode(
        "unknown queue or slicing",
        "A rule is for something that is neither a queue nor a slicing.",
        "create rule ship for orders …",
    ),
    "DQ0205": DiagnosticCode(
        "unknown slicing",
        "`do reset` names a slicing that no module creates.",
        "create slicing orders on orderID",
    ),
    "DQ0206": DiagnosticCode(
        "unknown property",
        "A property is named that is neither created nor one of the system's.",
        "create property orderID as xs:string queue orders value //orderID",
    ),
    "DQ0207": DiagnosticCode(
        "unknown collection",
        "Collections need no declaration; but an application that declares some declares them all.",
        "create collection prices",
    ),
    "DQ0208": DiagnosticCode(
        "defined twice",
        "Two queues, properties, slicings, collections or rules have one name. Queues and slicings share their names.",
        "create queue orders  create slicing ordersByID on orderID",
    ),
    "DQ0209": DiagnosticCode(
        "declared twice",
        "A prolog declares a function, variable, prefix or setting twice, or one expression binds a variable twice.",
        "declare function local:total($order) { … };",
    ),
    "DQ0210": DiagnosticCode(
        "reserved name",
        "Names that begin with demaq: are the system's own. Sender and Recipient mean something on gateways already, "
        "timeout and target on echo queues.",
        "create property orderSender as xs:string queue supplier",
    ),
    "DQ0301": DiagnosticCode(
        "unknown function",
        "No such function is declared, imported or built in.",
        "qs:message()//orderID",
    ),
    "DQ0302": DiagnosticCode(
        "wrong number of arguments",
        "The function exists, and does not take so many arguments.",
        'string-join(//name, ", ")',
    ),
    "DQ0303": DiagnosticCode(
        "function reaches outside",
        "What a rule does may depend on messages, collections and the engine's clock, and on nothing else: then it can "
        "be evaluated again with the same outcome.",
        'collection("prices")',
    ),
    "DQ0304": DiagnosticCode(
        "unknown type",
        "Types are those of XML Schema; there are no imported schemas.",
        "$total cast as xs:decimal",
    ),
    "DQ0305": DiagnosticCode(
        "no context item",
        "Inside a function, declared or inline, and in a global variable there is no context item: `.`, `/`, `//x` and "
        "name() have nothing to start from.",
        "declare function local:id() { qs:message()//orderID };",
    ),
    "DQ0306": DiagnosticCode(
        "function outside a namespace of its own",
        "A function cannot be declared in the namespace of XQuery's or Demaq's own functions; those of a library "
        "module are in the module's namespace.",
        "declare function local:total($order) { sum($order//price) };",
    ),
    "DQ0307": DiagnosticCode(
        "property of a type that is not atomic",
        "A property has one atomic value.",
        "create property orderID as xs:string queue orders",
    ),
    "DQ0308": DiagnosticCode(
        "no slice here",
        "qs:slice(), qs:slicekey() and a bare `do reset` mean the slice a rule fires for; only rules on slicings have "
        "one.",
        "create rule join for requestMsgs if (qs:slice()/offer) then do reset",
    ),
    "DQ0309": DiagnosticCode(
        "property computed from other messages",
        "The value of a property is computed from its own message when that is stored. Queues and collections cannot "
        "be read for it.",
        "create property orderID as xs:string queue orders value //orderID",
    ),
    "DQ0310": DiagnosticCode(
        "global variable computed from messages",
        "A global variable is computed once, without a message and without a snapshot of queues and collections.",
        'let $prices := collection("prices") return …',
    ),
    "DQ0311": DiagnosticCode(
        "external variable without value",
        "An application gets no variables from outside.",
        'declare variable $currency external := "EUR";',
    ),
    "DQ0312": DiagnosticCode(
        "declared context item",
        "The context item of rules and property values is the document node of the message.",
        "leave the declaration out",
    ),
    "DQ0313": DiagnosticCode(
        "external function",
        "There are no functions from elsewhere.",
        "declare function local:twice($n) { 2 * $n };",
    ),
    "DQ0314": DiagnosticCode(
        "unsupported revalidation mode",
        "Expressions know no schemas, so what was changed cannot be validated again: XUST0026. A message is validated "
        "when it is enqueued, where its queue has a schema.",
        "declare revalidation skip;",
    ),
    "DQ0315": DiagnosticCode(
        "updating function with a return type",
        "A function declared updating returns nothing and has no type to declare, not even empty-sequence(): XUST0028.",
        "declare updating function local:note($text) { do enqueue <note>{$text}</note> into notes };",
    ),
    "DQ0401": DiagnosticCode(
        "body is not an if",
        "The body of a rule is a conditional, so that the compiler sees when it fires.",
        "create rule copy for orders if (true()) then do enqueue . into archive",
    ),
    "DQ0402": DiagnosticCode(
        "rule does nothing",
        "No branch of the rule has an action.",
        "if (//order) then do enqueue <ack/> into answers",
    ),
    "DQ0403": DiagnosticCode(
        "action in the wrong place",
        "Actions stand after then, else and return, alone or in a list; not in conditions, arguments, constructors, "
        "values of variables, try or functions that are not declared updating. Nodes are changed after `modify`.",
        "for $item in //item return do enqueue $item into items",
    ),
    "DQ0404": DiagnosticCode(
        "actions mixed with values",
        "All branches of an `if` and all items of a list are actions, or all have values. () goes with both.",
        "if (//order) then do enqueue <ack/> into answers else ()",
    ),
    "DQ0405": DiagnosticCode(
        "fixed property set",
        "A fixed property is always computed.",
        "create property orderID as xs:string queue orders value //orderID",
    ),
    "DQ0406": DiagnosticCode(
        "property not defined on the queue",
        "`with` sets properties that are defined on the target queue; Sender and Recipient on gateways, timeout and "
        "target on echo queues.",
        "create property orderID as xs:string queue orders, shipping",
    ),
    "DQ0407": DiagnosticCode(
        "system property set",
        "Properties that begin with demaq: are set by the system alone.",
        "create property origin as xs:string inherited queue orders",
    ),
    "DQ0408": DiagnosticCode(
        "property set twice",
        "One `do enqueue` sets a property once.",
        'do enqueue <x/> into supplier with Sender value "http://ws.chem.invalid/"',
    ),
    "DQ0409": DiagnosticCode(
        "stored message changed",
        "Queues are append-only and messages never change. Nodes can be changed on a copy.",
        "copy $c := . modify delete node $c//secret return do enqueue $c into archive",
    ),
    "DQ0410": DiagnosticCode(
        "property defined twice on one queue",
        "For each queue a property is defined once.",
        "create property orderID as xs:string queue orders value //orderID queue invoices value //order/@id",
    ),
    "DQ0411": DiagnosticCode(
        "fixed property without value",
        "A fixed property is always computed, so something has to say how.",
        "create property orderID as xs:string fixed queue orders value //orderID",
    ),
    "DQ0412": DiagnosticCode(
        "update aims at a stored message",
        "Inside `modify` only the copies can be changed; this target is a message as it is stored.",
        "copy $c := . modify delete node $c//secret return do enqueue $c into archive",
    ),
    "DQ0413": DiagnosticCode(
        "action inside modify",
        "While a copy is being changed nothing is enqueued or reset.",
        "copy $c := . modify delete node $c//secret return do enqueue $c into archive",
    ),
    "DQ0414": DiagnosticCode(
        "modify without update",
        "What stands after `modify` changes the copy or is empty; a value would be lost.",
        "copy $c := . modify () return do enqueue $c into archive",
    ),
    "DQ0415": DiagnosticCode(
        "properties computed from each other",
        "On one queue a property is computed from another, and that from the first: neither can come first.",
        "create property caseID as xs:string queue orders value //case/@id",
    ),
    "DQ0501": DiagnosticCode(
        "enqueue into an incoming gateway",
        "An incoming gateway holds what other nodes have sent.",
        "create queue supplier kind outgoingGateway",
    ),
    "DQ0502": DiagnosticCode(
        "gateway's clause on another queue",
        "interface, endpoint, replyto and using describe how a gateway meets the world.",
        'create queue supplier kind outgoingGateway endpoint "http://supplier.invalid/"',
    ),
    "DQ0503": DiagnosticCode(
        "reliable and transient",
        "Reliable messaging works across failures, so the queue has to be persistent.",
        "create queue supplier kind outgoingGateway mode persistent using WS-ReliableMessaging",
    ),
    "DQ0504": DiagnosticCode(
        "unsuitable error queue",
        "Errors cannot go into an incoming gateway, nor into an echo queue, which would ask for a timeout.",
        "create queue crmErrors kind basic mode persistent",
    ),
    "DQ0505": DiagnosticCode(
        "unsuitable target of a timer",
        "An echo queue gives its messages to any queue but an incoming gateway or another echo queue: that would ask "
        "for a timeout and a target again, which a message does not keep.",
        'do enqueue <timeout/> into echoQueue with timeout value 60 with target value "finance"',
    ),
    "DQ0506": DiagnosticCode(
        "extension given twice",
        "Each extension is given once, with one policy.",
        "using WS-Security policy wssecpol.xml",
    ),
    "DQ0507": DiagnosticCode(
        "rule for an echo queue",
        "The messages of an echo queue wait for their time and for nothing else: a rule for it, or for a slicing of "
        "nothing but echo queues, would never be asked. It belongs to the queue that the messages come back to.",
        "create rule remind for reminders if (/remind) then …",
    ),
    "DQ0508": DiagnosticCode(
        "address that cannot be used",
        "Messages arrive at a path of the node's own address or for a mail address, and are sent to a web or mail "
        "address. /healthz, /readyz and /metrics are the node's own.",
        'create queue orders kind incomingGateway endpoint "http:/orders"',
    ),
    "DQ0509": DiagnosticCode(
        "two gateways at one address",
        "A request must be for one queue. Without an endpoint a gateway's path is its name.",
        'create queue orders kind incomingGateway endpoint "http:/v2/orders"',
    ),
    "DQ0510": DiagnosticCode(
        "unsuitable queue for answers",
        "Outgoing gateways get answers; they go to any queue but an incoming gateway or an echo queue.",
        "create queue supplier kind outgoingGateway interface supplier.wsdl port Orders replyto supplierAnswers",
    ),
    "DQ0511": DiagnosticCode(
        "WS-Security without a policy",
        "Only a policy says what is signed and encrypted, and with which algorithms. It is in a file, or in the "
        "interface of the gateway.",
        "using WS-Security policy wssecpol.xml",
    ),
    "DQ0601": DiagnosticCode(
        "schema cannot be used",
        "The file is missing, not well-formed, or no valid XML Schema. It is looked for in the module's folder.",
        "create queue orders schema order.xsd",
    ),
    "DQ0602": DiagnosticCode(
        "interface cannot be used",
        "The file is missing, not well-formed, or no WSDL 1.1 document; or a file that it imports is. Files are looked "
        "for in the module's folder, never on the network. The port must speak SOAP 1.1 or 1.2 with literal messages.",
        "create queue supplier kind outgoingGateway interface supplier.wsdl port CapacityRequestPort",
    ),
    "DQ0603": DiagnosticCode(
        "policy cannot be used",
        "The file is missing, not well-formed or no policy of WS-Policy 1.2 or 1.5; or a policy that it refers to is. "
        "Files are looked for in the module's folder, never on the network. Policies of an interface are read too.",
        "using WS-Security policy wssecpol.xml",
    ),
    "DQ0604": DiagnosticCode(
        "unknown port",
        "The interface has no port of that name, or has several ports and the queue does not say which.",
        "interface supplier.wsdl port CapacityRequestPort",
    ),
    "DQ0605": DiagnosticCode(
        "library module cannot be read",
        "The file that an import names is missing or unreadable. It is looked for from the importing module's folder.",
        'import module namespace p = "urn:prices" at "prices.xqm";',
    ),
    "DQ0606": DiagnosticCode(
        "import of the wrong module",
        "The file is no library module, or the module of another namespace.",
        'module namespace p = "urn:prices";',
    ),
    "DQ0607": DiagnosticCode(
        "import without place",
        "Nothing says which file the module is in.",
        'import module namespace p = "urn:prices" at "prices.xqm";',
    ),
    "DQ0608": DiagnosticCode(
        "assertion that is not supported",
        "A policy has alternatives, and each of them asks for something that is not implemented, which is never "
        "ignored. What is wrong with the alternative that comes nearest is reported. The reference of gateways lists "
        "what is understood.",
        "<sp:AlgorithmSuite><wsp:Policy><sp:Basic256Sha256/></wsp:Policy></sp:AlgorithmSuite>",
    ),
    "DQ0609": DiagnosticCode(
        "policy of another kind",
        "The policy asks for nothing of the extension it is given for, or for another extension; or the interface, or "
        "another policy of the gateway, asks for something else.",
        "using WS-ReliableMessaging policy wsrmpol.xml using WS-Security policy wssecpol.xml",
    ),
    "DQ0702": DiagnosticCode(
        "pragma without content",
        "No pragma is known here, so that what stands in its braces is evaluated. There is nothing in them.",
        "(# p:hint #) { //order }",
    ),
    "DQ0703": DiagnosticCode(
        "too deep to be compiled",
        "An expression that is to be evaluated may be nested 500 levels deep.",
        "let $part := … return …",
    ),
    "DQ0704": DiagnosticCode(
        "refused by the XQuery compiler",
        "Saxon finds a static error, such as an operator that is not defined for the types of its operands. The "
        "message begins with the error's code in the XQuery recommendation.",
        'concat("order ", 7)',
    ),
    "DQ1201": DiagnosticCode(
        "element's name like a variable's",
        "A bare name is a child element; a variable of that name is bound, and probably only the $ is missing.",
        "$payments[//requestID = $mRID]",
    ),
    "DQ1202": DiagnosticCode(
        "child of the document that cannot be there",
        "A condition around this says what the root of the message is, and the step asks for another root.",
        "if (/order) then do enqueue <x>{/order/customerID}</x> into q",
    ),
    "DQ1203": DiagnosticCode(
        "root or descendant?",
        "One rule reads a name as the root of the message and as a descendant. A child step from the document node "
        "finds the root only.",
        "qs:message()//customerID",
    ),
    "DQ1204": DiagnosticCode(
        "name in another namespace",
        "The schema or the interface of the queue says that its messages have an element of that name in another "
        "namespace: the name finds nothing, so that the rule never fires or the property stays absent. A name without "
        "a prefix is in the default element namespace, if the module declares one, and otherwise in none. The "
        "declaration holds for the elements that the module builds as well. Elements inside a message are often in no "
        'namespace while its root is in one: a schema has to say elementFormDefault="qualified".',
        'declare namespace o = "urn:example:orders"; create rule confirm for orders if (/o:order) then …',
    ),
    "DQ1205": DiagnosticCode(
        "word read as an element's name",
        "No word is reserved: `null`, `true` or `not` without parentheses is a step to a child element of that name. "
        "Warned of is one that stands alone in a condition or comparison, or before a blank and a path.",
        "if (not(/order/@paid) and exists(/order/@id)) then do enqueue <reminder/> into letters",
    ),
    "DQ1301": DiagnosticCode(
        "true and false without parentheses",
        "By the grammar these words are element names; as the value of a boolean property they are taken for the "
        "constants.",
        "create property isVIPorder as xs:boolean inherited queue crm value false()",
    ),
    "DQ1302": DiagnosticCode(
        "inheritance broken",
        "A message passes a queue on which an inherited property is not defined, and is then expected to have it.",
        "create property caseID as xs:string inherited queue orders, checks, shipping",
    ),
    "DQ1303": DiagnosticCode(
        "property always absent",
        "A rule reads a property that is not defined on its queue.",
        "create property orderID as xs:string queue orders, invoices value //orderID",
    ),
    "DQ1304": DiagnosticCode(
        "sign that means something else",
        "`||` joins strings and is no `or`; `/` before a number continues a path and does not divide; `--` is "
        "twice a minus and `//` a step to descendants: neither begins a comment. Warned of is `||` as a condition, a "
        "number as a step, two minus signs without a blank, and `//` between blanks with one word up to the end of "
        "the line.",
        "if (/order/@urgent or /order/@euros div 2 > 500) (: half is paid :) then do enqueue <x/> into clerks",
    ),
    "DQ1305": DiagnosticCode(
        "!= on several items",
        "`a != b` is true if any item of a differs from any item of b, so with several items nearly always; with none "
        "it is false. Warned of are operands that are for several items by their form: paths with `//`, "
        "qs:queue(), qs:slice(), collection(), lists and variables that hold such; and a comparison with ().",
        'if (not(//item/@state = "open")) then do enqueue <done/> into clerks',
    ),
    "DQ1401": DiagnosticCode(
        "slicing feeds itself",
        "A rule on a slicing enqueues a message that joins the same slice, so the rule fires again for it, unless "
        "something in its condition asks whether that has happened already.",
        "if (qs:slice()/result and not(qs:slice()/offer)) then do enqueue <offer/> into customer",
    ),
    "DQ1402": DiagnosticCode(
        "slicing never reset",
        "A message stays as long as a slice holds it. Without a reset that is for ever.",
        "create rule cleanup for orders if (qs:slice()/paid) then do reset",
    ),
    "DQ1403": DiagnosticCode(
        "queue read but not retained",
        "qs:queue() shows the messages that are there. In a queue with rules, what was processed and is in no slice "
        "is gone.",
        "create slicing invoiceRetention on invoiceID",
    ),
    "DQ1404": DiagnosticCode(
        "slicing over both modes",
        "After a crash transient queues are empty, and slices that also hold persistent messages are incomplete.",
        "create queue requests mode persistent",
    ),
    "DQ1405": DiagnosticCode(
        "comma continues a branch that has no visible end",
        "At the top of a rule's body a comma continues the innermost branch that is open. Where that is an `else` or "
        "`default return`, or a branch of an `if` inside another one, it is easily taken for the end of the whole "
        "`if`. Parentheses say what is meant.",
        "if (/a) then (if (/a/b) then do enqueue <b/> into q else do enqueue <c/> into q, do reset)",
    ),
    "DQ1501": DiagnosticCode(
        "queue nothing reads",
        "No rule pertains to the queue and no expression reads it: its messages stay until a client takes them. If "
        "that is meant, the queue is a mailbox and is declared so.",
        "create queue answers kind mailbox",
    ),
    "DQ1502": DiagnosticCode(
        "queue nothing fills",
        "The application takes messages in through gateways, and none of its rules, timers or error routes leads to "
        "this queue, which has rules. Only a client can fill it.",
        "do enqueue <check/> into checks",
    ),
    "DQ1503": DiagnosticCode(
        "cycle without end",
        "Rules feed each other, and the condition of each certainly holds for what the one before builds.",
        'if (/ping[@left > 0]) then do enqueue <ping left="{/ping/@left - 1}"/> into pings',
    ),
    "DQ1504": DiagnosticCode(
        "timer without end",
        "A message for an echo queue says with `timeout` when it comes back and with `target` where; without both the "
        "action fails.",
        'do enqueue <timeout/> into echoQueue with timeout value 60 with target value "finance"',
    ),
    "DQ1505": DiagnosticCode(
        "gateway that is not started",
        "The gateway asks for an extension of SOAP that it cannot have, because it exchanges mails or sends without "
        "an interface, and is not run without: it takes no messages, and messages that it should send wait. "
        "`demaq run` says so too. What depends on how a node is run, such as the address at which it gets mail, only "
        "`demaq run` can tell.",
        "create queue supplier kind outgoingGateway interface supplier.wsdl using WS-ReliableMessaging",
    ),
    "DQ1506": DiagnosticCode(
        "mailbox with a rule",
        "A mailbox holds its messages until a client takes them. A rule for the queue, or for a slicing that the queue "
        "belongs to, processes them instead, and then there is nothing left to take.",
        "create queue answers kind basic",
    ),
    "DQ1507": DiagnosticCode(
        "policy of an interface that is not applied",
        "The interface has a policy, and the queue does not say `using` for what it asks. The gateway is run without, "
        "which the other side may refuse.",
        "create queue supplier kind outgoingGateway interface supplier.wsdl using WS-Security",
    ),
}
