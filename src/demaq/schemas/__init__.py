"""The XML Schemas that Demaq publishes, each in a file `NAME.xsd` beside this one."""

from importlib import resources

SCHEMAS = ("error",)
"""`error`: messages about what went wrong."""


def schema_text(name: str) -> str:
    """The text of one of the SCHEMAS."""
    return resources.files("demaq.schemas").joinpath(f"{name}.xsd").read_text(encoding="utf-8")
