"""What operators say about gateways in a file of settings, with every default filled in."""

from demaq.gateways.settings.exposure import exposures
from demaq.gateways.settings.settings import (
    IncomingSettings,
    MailSettings,
    MessageSecuritySettings,
    OutgoingSettings,
    RelaySettings,
    Settings,
    Tls,
)
from demaq.gateways.settings.settings_file import read_settings

__all__ = [
    "IncomingSettings",
    "MailSettings",
    "MessageSecuritySettings",
    "OutgoingSettings",
    "RelaySettings",
    "Settings",
    "Tls",
    "exposures",
    "read_settings",
]
