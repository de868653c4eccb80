"""The XML Schemas that Demaq publishes, each in a file `NAME.xsd` in this folder."""

from importlib import resources

SCHEMAS = ("error", "mail")
"""`error`: messages about what went wrong; `mail`: mails that are written for people."""


def schema_text(name: str) -> str:
    """Return the text of one of the SCHEMAS."""
    return resources.files("demaq.schemas").joinpath(f"{name}.xsd").read_text(encoding="utf-8")
