"""Headers that mean something here, besides those of HTTP itself."""

MESSAGE_HEADER = "Demaq-Message"
"""The name that a message of another node has everywhere: its store's name and its number."""
SENDER_HEADER = "Demaq-Sender"
"""Who a message is from, as the application of another node says."""
