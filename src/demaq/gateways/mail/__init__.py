"""Mail as a gateway: reading one, listening for them by SMTP, writing and sending one."""
