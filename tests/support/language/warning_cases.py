"""Programs that may run and look suspicious, and near misses that do not: code, program with `¦` where it is.

A case without `¦` expects no warning at all. Each program is complete.
"""

# A queue that is read and filled, so that nothing but the case itself is worth a warning.
Q = (
    "create queue q create queue out kind outgoingGateway"
    " create rule use for q if (/use[@x]) then do enqueue <used/> into out\n"
)
SLICED = (
    "create queue q create queue out kind outgoingGateway create property k as xs:string fixed queue q value //k\n"
    "create slicing s on k create rule clean for s if (qs:slice()/done) then do reset\n"
)


def sliced(body: str) -> str:
    return f"{SLICED}create rule r for s {body}"


WARNING_CASES: list[tuple[str, str, str]] = [
    # commas that continue a branch
    (
        "a comma that continues an else",
        "DQ1405",
        Q
        + (
            "create rule r for q if (/n) then do enqueue <a/> into out"
            " else do enqueue <b/> into out¦, do enqueue <c/> into out, do enqueue <d/> into out"
        ),
    ),
    (
        "a comma that continues a default",
        "DQ1405",
        Q
        + (
            "create rule r for q if (/n) then switch (/n) case 1 return do enqueue <a/> into out"
            " default return do enqueue <b/> into out¦, do enqueue <c/> into out"
        ),
    ),
    (
        "a comma that continues an if inside another one",
        "DQ1405",
        Q
        + (
            "create rule r for q if (/n) then for $x in //n return"
            " if ($x) then do enqueue <a/> into out¦, do enqueue <b/> into out"
        ),
    ),
    (
        "commas behind the rule's own then, behind return and in parentheses",
        "",
        Q
        + (
            "create rule r for q if (/n) then do enqueue <a/> into out, for $x in //n return"
            " do enqueue <b/> into out, (if ($x) then do enqueue <c/> into out else do enqueue <d/> into out,"
            " do enqueue <e/> into out)"
        ),
    ),
    # a name that should have been a variable
    (
        "a name like a variable, compared",
        "DQ1201",
        Q
        + (
            "create rule r for q if (/n) then let $mRID := //n return"
            " if (//p[//x = ¦mRID]) then do enqueue <a/> into out else ()"
        ),
    ),
    (
        "a name like a variable, standing for the message's root",
        "DQ1201",
        Q + ("create rule r for q if (/n) then let $n := //n return do enqueue <a>{¦n}</a> into out"),
    ),
    (
        "a child compared with the variable of its name",
        "",
        Q
        + (
            "create rule r for q if (/n) then let $id := //id return"
            " if (//p[id = $id]) then do enqueue <a/> into out else ()"
        ),
    ),
    (
        "a name like a variable in a longer path",
        "",
        Q
        + (
            "create rule r for q if (/n) then let $id := //id return"
            " do enqueue <a>{for $p in //p return $p/id}</a> into out"
        ),
    ),
    # what other languages read otherwise
    *[
        (f"in a condition: {text}", code, f"{Q}create rule r for q if ({text}) then do enqueue <a/> into out")
        for code, text in (
            ("DQ1305", "¦//item/@id != 5"),
            ("DQ1305", "¦5 != //item/@id"),
            ("DQ1305 DQ1403", "¦¦qs:queue('q')/a != 5"),
            ("DQ1305", "¦/a/@id != (1, 2)"),
            ("DQ1305", "let $x := //item return ¦$x != 5"),
            ("DQ1305", "¦/a/@id != ()"),
            ("", "/order/@state != 'paid'"),
            ("", "count(//item) != 5"),
            ("", "//item[@id != 5]"),
            ("", "//item[1] != 5"),
            ("", "not(//item/@id = 5)"),
            ("", "some $i in //item satisfies $i != 5"),
            ("DQ1304", "¦/a || /b"),
            ("DQ1304", "/c and (¦/a || /b)"),
            ("DQ1304", "//x[¦@a || @b]"),
            ("", "/a || /b = 'ab'"),
            ("DQ1304", "/a/@n / ¦2 > 1"),
            ("DQ1304", "/a ¦-- really\n and /b"),
            ("", "/a - -1 = 2"),
            ("DQ1304", "/a // ¦really\n and /b"),
            ("", "/a//b and /a // b = 3"),
            ("DQ1205", "/a/@id = ¦null"),
            ("DQ1205", "/a/@id != ¦null"),
            ("DQ1205", "/a is ¦null"),
            ("DQ1205", "¦true"),
            ("DQ1205", "/a and ¦false"),
            ("DQ1205", "¦not /a"),
            ("DQ1205", "/a and ¦then /b"),
            ("", "/a/null = 'x' or /a/not/b or //x[true]"),
        )
    ],
    # the root
    (
        "another root than the condition asks for",
        "DQ1202",
        Q + ("create rule r for q if (/order) then do enqueue <a>{/¦customer/id}</a> into out"),
    ),
    (
        "another root asked of qs:message()",
        "DQ1202",
        Q
        + (
            "create rule r for q if (qs:message()/order and //x) then"
            " do enqueue <a>{qs:message()/¦customer}</a> into out"
        ),
    ),
    (
        "another root in the same condition's branch",
        "DQ1202",
        Q + ("create rule r for q if (/order/@id = 5) then if (/¦invoice) then do enqueue <a/> into out"),
    ),
    (
        "another root in the other branch",
        "",
        Q
        + ("create rule r for q if (/order) then do enqueue <a/> into out else do enqueue <a>{/invoice}</a> into out"),
    ),
    (
        "another root inside a predicate on other messages",
        "",
        Q + ('create rule r for q if (/order) then do enqueue <a>{collection("c")[/customer]}</a> into out'),
    ),
    (
        "a root out of several",
        "",
        Q + ("create rule r for q if (/order or /invoice) then do enqueue <a>{/order}{/invoice}</a> into out"),
    ),
    ("the root with any name", "", Q + ("create rule r for q if (/order) then do enqueue <a>{/*/id}</a> into out")),
    (
        "a root read as a descendant elsewhere",
        "DQ1203",
        Q + ("create rule r for q if (//order) then do enqueue <a>{//id}{qs:message()/¦id}</a> into out"),
    ),
    (
        "a root read as a descendant, with a condition that asks for that root",
        "",
        Q + ("create rule r for q if (/order) then do enqueue <a>{//order}</a> into out"),
    ),
    # properties
    ("true as the value of a boolean", "DQ1301", Q + "create property p as xs:boolean queue q value ¦true"),
    ("false as the value of a string", "", Q + "create property p as xs:string queue q value false"),
    ("true() as the value of a boolean", "", Q + "create property p as xs:boolean queue q value true()"),
    (
        "an inherited property lost on the way",
        "DQ1302",
        "create queue x create queue y create queue z kind outgoingGateway"
        " create property p as xs:string inherited queue x, z\n"
        "create rule one for x if (/a) then do enqueue <b/> into ¦y create rule two for y if (/b) then"
        " do enqueue <c/> into z",
    ),
    (
        "an inherited property lost in a timer",
        "DQ1302",
        "create queue x create queue t kind echo create queue z create property p as xs:string inherited queue x, z\n"
        'create rule one for x if (/a) then do enqueue <b/> into ¦t with timeout value 1 with target value "z"'
        " create rule two for z if (/b) then do enqueue <c/> into out create queue out kind outgoingGateway",
    ),
    (
        "an inherited property set again",
        "",
        "create queue x create queue y create queue z kind outgoingGateway"
        " create property p as xs:string inherited queue x, z\n"
        "create rule one for x if (/a) then do enqueue <b/> into y create rule two for y if (/b) then"
        " do enqueue <c/> into z with p value 5",
    ),
    (
        "an inherited property computed again",
        "",
        "create queue x create queue y create queue z kind outgoingGateway"
        " create property p as xs:string inherited queue x, z value //p\n"
        "create rule one for x if (/a) then do enqueue <b/> into y create rule two for y if (/b) then"
        " do enqueue <c/> into z",
    ),
    (
        "a property that is always absent",
        "DQ1303",
        Q
        + (
            "create property p as xs:string queue out "
            'create rule r for q if (qs:property(¦"p") = 5) then do enqueue <a/> into out'
        ),
    ),
    (
        "a property of another message",
        "",
        Q
        + (
            "create property p as xs:string queue out "
            'create rule r for q if (qs:property("p", //x) = 5) then do enqueue <a/> into out'
        ),
    ),
    # slicings that feed themselves
    ("a slicing that feeds itself", "DQ1401", sliced("if (qs:slice()/a) then do enqueue <offer>{//k}</offer> into ¦q")),
    (
        "a slicing that feeds itself though something else is absent",
        "DQ1401",
        sliced("if (qs:slice()/a and not(qs:slice()/b)) then do enqueue <offer>5</offer> into ¦q"),
    ),
    (
        "a slicing that feeds itself because of what it feeds",
        "DQ1401",
        sliced("if (qs:slice()/offer) then do enqueue <offer/> into ¦q"),
    ),
    (
        "a slicing that feeds itself in the unguarded branch",
        "DQ1401",
        sliced(
            "if (qs:slice()/a) then (if (not(qs:slice()/b)) then do enqueue <b/> into q else do enqueue <c/> into ¦q)"
        ),
    ),
    ("a guarded slicing", "", sliced("if (qs:slice()/a and not(qs:slice()/offer)) then do enqueue <offer/> into q")),
    ("a slicing guarded by empty", "", sliced("if (empty(qs:slice()[/offer])) then do enqueue <offer/> into q")),
    ("a slicing guarded by a count", "", sliced("if (count(qs:slice()) = 3) then do enqueue <offer/> into q")),
    ("a slicing guarded by else", "", sliced("if (qs:slice()/offer) then () else do enqueue <offer/> into q")),
    (
        "a slicing guarded through a variable",
        "",
        sliced(
            "if (true()) then let $sent := exists(qs:slice()/offer) return if (not($sent)) then"
            " let $offer := <offer/> return do enqueue $offer into q"
        ),
    ),
    (
        "a slicing guarded by a where clause",
        "",
        sliced("if (true()) then for $x in //x where empty(qs:slice()/offer) return do enqueue <offer/> into q"),
    ),
    (
        "a slicing guarded by a reset beside it",
        "",
        sliced("if (qs:slice()/a) then (do enqueue <offer/> into q, do reset)"),
    ),
    (
        "a slicing guarded by a reset by name",
        "",
        sliced("if (qs:slice()/a) then (do reset s key qs:slicekey(), if (//b) then do enqueue <offer/> into q)"),
    ),
    (
        "a slicing whose rule asks for another root",
        "",
        sliced("if (/request and qs:slice()/a) then do enqueue <offer/> into q"),
    ),
    (
        "a slicing whose rule asks for an element its message lacks",
        "",
        sliced("if (//request) then do enqueue <offer><price>{5 + 1}</price></offer> into q"),
    ),
    ("a slicing whose message goes elsewhere", "", sliced("if (qs:slice()/a) then do enqueue <offer/> into out")),
    # retention
    (
        "a slicing that is never reset",
        "DQ1402",
        Q + ("create property k as xs:string queue q value //k create slicing ¦t on k"),
    ),
    (
        "a slicing that is reset by name",
        "",
        Q
        + (
            "create property k as xs:string queue q value //k create slicing t on k"
            " create rule r for q if (/z) then do reset t key //k"
        ),
    ),
    (
        "a queue read that nothing retains",
        "DQ1403",
        Q + ('create rule r for q if (/a) then do enqueue <b>{¦qs:queue("q")/x}</b> into out'),
    ),
    (
        "the own queue read that nothing retains",
        "DQ1403",
        Q + ("create rule r for q if (/a) then do enqueue <b>{¦qs:queue()/x}</b> into out"),
    ),
    (
        "a gateway read that nothing retains",
        "DQ1403",
        Q + ('create rule r for q if (/a and ¦qs:queue("out")/x) then do enqueue <b/> into out'),
    ),
    (
        "a mailbox read",
        "",
        Q + ('create queue mail create rule r for q if (/a) then do enqueue <b>{qs:queue("mail")/x}</b> into out'),
    ),
    ("a queue read that a slicing retains", "", sliced('if (/a) then do enqueue <b>{qs:queue("q")/x}</b> into out')),
    (
        "a slicing over both modes",
        "DQ1404",
        Q
        + (
            "create queue t mode transient create rule x for t if (/a) then do reset ts key 1\n"
            "create property k as xs:string queue q, t value //k create slicing ¦ts on k"
        ),
    ),
    # queues
    ("a queue that nothing reads", "DQ1501", Q + "create queue ¦idle"),
    ("an incoming gateway that nothing reads", "DQ1501", "create queue ¦in kind incomingGateway"),
    ("a mailbox that nothing reads", "", Q + "create queue letters kind mailbox"),
    (
        "a mailbox that a rule reads and another fills",
        "",
        Q + 'create queue m kind mailbox create rule r for q if (not(qs:queue("m"))) then do enqueue <b/> into m',
    ),
    (
        "a mailbox with a rule",
        "DQ1506",
        Q + "create queue ¦m kind mailbox create rule r for m if (/a) then do enqueue <b/> into out",
    ),
    (
        "a mailbox with a slicing's rule",
        "DQ1506",
        "create queue ¦m kind mailbox create property k as xs:string fixed queue m value //k\n"
        "create slicing s on k create rule clean for s if (qs:slice()/done) then do reset",
    ),
    (
        "a gateway without an interface that asks for an extension of SOAP",
        "DQ1505",
        Q + "create queue o kind outgoingGateway ¦using WS-ReliableMessaging",
    ),
    (
        "an incoming gateway for mails that asks for an extension of SOAP",
        "DQ1505",
        'create queue in kind incomingGateway endpoint "mailto:a@example.org" ¦using WS-ReliableMessaging\n'
        "create queue out kind outgoingGateway create rule r for in if (/a) then do enqueue <b/> into out",
    ),
    (
        "an incoming gateway that needs no interface for an extension of SOAP",
        "",
        "create queue in kind incomingGateway using WS-ReliableMessaging create queue out kind outgoingGateway\n"
        "create rule r for in if (/a) then do enqueue <b/> into out",
    ),
    (
        "gateways of which only a run can say where they are",
        "",
        'create queue in kind incomingGateway endpoint "mailto:a@example.org" create queue out kind outgoingGateway\n'
        "create rule r for in if (/a) then do enqueue <b/> into out",
    ),
    (
        "a queue read by its name",
        "",
        Q + ('create queue mail create rule r for q if (qs:queue("mail")) then do enqueue <b/> into out'),
    ),
    (
        "a queue that may be read by a computed name",
        "",
        Q + ("create queue mail create rule r for q if (qs:queue(string(//n))) then do enqueue <b/> into out"),
    ),
    (
        "a queue that nothing fills beside gateways",
        "DQ1502",
        "create queue in kind incomingGateway create queue out kind outgoingGateway create queue ¦x\n"
        "create rule one for in if (/a) then do enqueue <b/> into out"
        " create rule two for x if (/a) then do enqueue <b/> into out",
    ),
    (
        "a queue that a timer fills",
        "",
        "create queue in kind incomingGateway create queue out kind outgoingGateway create queue x"
        " create queue t kind echo\n"
        'create rule one for in if (/a) then do enqueue <b/> into t with timeout value 5 with target value "x"'
        " create rule two for x if (/a) then do enqueue <b/> into out",
    ),
    (
        "a queue that errors fill",
        "",
        "create queue in kind incomingGateway errorqueue x create queue out kind outgoingGateway create queue x\n"
        "create rule one for in if (/a) then do enqueue <b/> into out"
        " create rule two for x if (/error) then do enqueue <b/> into out",
    ),
    (
        "a queue that a function fills",
        "",
        "declare updating function local:f() { do enqueue <b/> into x };"
        " create queue in kind incomingGateway create queue out kind outgoingGateway create queue x\n"
        "create rule one for in if (/a) then local:f()"
        " create rule two for x if (/a) then do enqueue <b/> into out",
    ),
    ("an application that clients fill", "", Q),
    # cycles
    (
        "a rule that feeds itself always",
        "DQ1503",
        "create queue x create rule r for x if (true()) then do enqueue <a/> into ¦x",
    ),
    (
        "a rule that feeds itself what it asks for",
        "DQ1503",
        "create queue x create rule r for x if (//a) then do enqueue <b><a/></b> into ¦x",
    ),
    (
        "two rules that feed each other",
        "DQ1503",
        "create queue x create queue y create rule r for x if (/a) then do enqueue <b/> into ¦y\n"
        "create rule t for y if (/b) then let $a := <a/> return do enqueue $a into ¦x",
    ),
    (
        "a rule that gives back its own message",
        "DQ1503",
        "create queue x create rule r for x if (//a) then do enqueue qs:message() into ¦x",
    ),
    (
        "two rules that ask for different things",
        "",
        "create queue x create queue y create rule r for x if (/a) then do enqueue <b/> into y\n"
        "create rule t for y if (/b) then do enqueue <c/> into x",
    ),
    (
        "a cycle that may end",
        "",
        'create queue x create rule r for x if (/a[@n > 0]) then do enqueue <a n="{/a/@n - 1}"/> into x',
    ),
    (
        "a cycle through a timer",
        "",
        "create queue x create queue t kind echo create rule r for x if (true()) then"
        ' do enqueue <a/> into t with timeout value 5 with target value "x"',
    ),
    (
        "a timer without target",
        "DQ1504",
        "create queue x create queue t kind echo create rule r for x if (/a) then"
        " do enqueue <a/> into ¦t with timeout value 5",
    ),
]
