"""The style sheet of the picture of a flow, for light and dark.

Each colour is written where it is used, not as a variable: programs that show SVG outside a browser know no variables.
"""

from __future__ import annotations

_FONT = "ui-monospace,'SFMono-Regular','DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace"


def _colours(
    page: str, text: str, faint: str, line: str, fills: dict[str, tuple[str, str]], red: str, amber: str
) -> str:
    """Return the rules about colours. `fills` has fill and outline of each kind of node."""
    nodes = "".join(
        [f".demaq-flow .{kind} .shape{{fill:{fill};stroke:{outline}}}" for kind, (fill, outline) in fills.items()]
    )
    return (
        f".demaq-flow{{color:{text}}}.demaq-flow .page{{fill:{page}}}{nodes}"
        f".demaq-flow .errors .shape{{stroke:{red}}}.demaq-flow .paused .shape{{stroke:{amber}}}"
        f".demaq-flow .note,.demaq-flow .legend{{fill:{faint}}}"
        f".demaq-flow .failing .figures{{fill:{red}}}.demaq-flow .paused .figures{{fill:{amber}}}"
        f".demaq-flow .edge{{stroke:{line}}}.demaq-flow .head{{fill:{line}}}"
        f".demaq-flow .edge.error{{stroke:{red}}}.demaq-flow .head.error{{fill:{red}}}"
        f".demaq-flow .edge.timer{{stroke:{amber}}}.demaq-flow .head.timer{{fill:{amber}}}"
    )


_LIGHT = _colours(
    page="#ffffff",
    text="#1f2328",
    faint="#59636e",
    line="#818b98",
    fills={
        "basic": ("#ddf4ff", "#54aeff"),
        "mailbox": ("#ddf4ff", "#54aeff"),
        "incomingGateway": ("#dafbe1", "#4ac26b"),
        "outgoingGateway": ("#dafbe1", "#4ac26b"),
        "echo": ("#fff8c5", "#d4a72c"),
        "slicing": ("#fbefff", "#c297ff"),
        "rule": ("#f6f8fa", "#afb8c1"),
    },
    red="#cf222e",
    amber="#9a6700",
)
_DARK = _colours(
    page="#0d1117",
    text="#e6edf3",
    faint="#b1bac4",
    line="#6e7681",
    fills={
        "basic": ("#0c2d6b", "#388bfd"),
        "mailbox": ("#0c2d6b", "#388bfd"),
        "incomingGateway": ("#033a16", "#2ea043"),
        "outgoingGateway": ("#033a16", "#2ea043"),
        "echo": ("#4b2900", "#bb8009"),
        "slicing": ("#3c1e70", "#a371f7"),
        "rule": ("#161b22", "#484f58"),
    },
    red="#ff7b72",
    amber="#e3b341",
)

FLOW_STYLE = (
    f".demaq-flow{{font-family:{_FONT}}}"
    ".demaq-flow text{text-anchor:middle;fill:currentColor}"
    ".demaq-flow .legend{text-anchor:start}"
    ".demaq-flow .name{font-size:13px}"
    ".demaq-flow .note,.demaq-flow .figures,.demaq-flow .legend{font-size:10.5px}"
    ".demaq-flow .basic .name,.demaq-flow .figures{font-weight:600}"
    ".demaq-flow .shape{stroke-width:1.25}.demaq-flow .errors .shape{stroke-width:1.75}"
    ".demaq-flow .mailbox .shape{stroke-dasharray:5 3}.demaq-flow .paused .shape{stroke-width:3;stroke-dasharray:8 4}"
    ".demaq-flow .edge{fill:none;stroke-width:1.25}"
    ".demaq-flow .edge.joins{stroke-dasharray:1 3;stroke-linecap:round}"
    ".demaq-flow .edge.timer,.demaq-flow .edge.error,.demaq-flow .edge.reply{stroke-dasharray:6 3}"
    ".demaq-flow .edge.resets{stroke-dasharray:2 3}.demaq-flow .edge.reads{stroke-opacity:.6;stroke-dasharray:1 4}"
    ".demaq-flow a:hover .shape,.demaq-flow a:focus .shape{stroke-width:2.5}"
    f"{_LIGHT}@media(prefers-color-scheme:dark){{{_DARK}}}"
)
"""For pictures within a page, too: all of it holds for what is in an element of class `demaq-flow` only."""
