"""`python -m demaq.cli` is the same as `demaq`."""

import signal

# Until a handler is installed, Ctrl-C ends the process as it ends any other: without a traceback.
_handler = signal.signal(signal.SIGINT, signal.SIG_DFL)

from demaq.cli.main import main  # noqa: E402  # this is what takes long

signal.signal(signal.SIGINT, _handler)
main()
