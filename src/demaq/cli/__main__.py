"""`python -m demaq.cli` is the same as `demaq`."""

from demaq.cli.main import main

main()
