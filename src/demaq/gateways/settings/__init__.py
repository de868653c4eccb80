"""What operators say about gateways in a file of settings, with every default filled in."""

from demaq.gateways.settings.exposure import exposures
from demaq.gateways.settings.reading import read_settings
from demaq.gateways.settings.values import Incoming, Mail, Outgoing, Relay, Settings, Tls

__all__ = ["Incoming", "Mail", "Outgoing", "Relay", "Settings", "Tls", "exposures", "read_settings"]
