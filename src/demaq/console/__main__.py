"""A console in a process of its own: `python -m demaq.console`, started by a node or by `demaq console`.

Standard input has the settings, on one line, and is kept open: when it ends, so does the console.
"""

from __future__ import annotations

from demaq.console.console_server import main

if __name__ == "__main__":
    main()
