"""The XML Schemas that Demaq publishes, each in a file `NAME.xsd` beside this one."""

from importlib import resources

SCHEMAS = ("error", "mail")
"""`error`: messages about what went wrong; `mail`: mails that are written for people."""


def schema_text(name: str) -> str:
    """The text of one of the SCHEMAS."""
    return resources.files("demaq.schemas").joinpath(f"{name}.xsd").read_text(encoding="utf-8")
