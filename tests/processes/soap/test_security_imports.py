"""Nodes without WS-Security do not load what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["demaq.soap", "demaq.soap.security", "demaq.gateways"])
def test_importing_a_package_loads_no_library_of_ws_security(module):
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {{'xmlsec', 'cryptography'}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
