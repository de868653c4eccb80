"""The files in `deploy/`: what they run is a command that we have, with pages, users and folders that fit together."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from demaq.cli.main import demaq
from demaq.gateways.settings import read_settings
from demaq.language.endpoints import HEALTH, METRICS, READINESS
from demaq.language.loader import check_application

PROJECT = Path(__file__).parents[3]
DEPLOY = PROJECT / "deploy"
PORT = 8080


def parse_command(arguments: list[str]) -> dict[str, Any]:
    """The options of a command of ours, as it reads them. Raises UsageError if there is no such option."""
    command = demaq.get_command(demaq.make_context("demaq", ["--help"], resilient_parsing=True), arguments[0])
    assert command is not None, arguments[0]
    return command.make_context(arguments[0], list(arguments[1:])).params


# the image


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def last(name: str) -> str:
    return [rest for kind, rest in stages()[-1] if kind == name][-1]


def test_the_image_is_built_in_two_stages_of_known_instructions():
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL"}
    assert {name for name, _ in instructions()} <= known | {"ENTRYPOINT", "CMD"}
    assert len(stages()) == 2
    assert stages()[0][0][1].endswith(" AS build")


def test_the_image_copies_what_is_there():
    for stage in stages():
        for rest in [rest for name, rest in stage if name == "COPY"]:
            *sources, target = [word for word in rest.split() if not word.startswith("--")]
            if "--from=build" in rest:
                assert sources == [target] == ["/opt/demaq"]
            else:
                assert [source for source in sources if not (PROJECT / source).exists()] == []


def test_commands_of_the_image_are_valid_for_a_shell():
    for rest in [rest for stage in stages() for name, rest in stage if name == "RUN"]:
        subprocess.run(["sh", "-n", "-c", rest], check=True)
    installs = [rest for _, rest in stages()[0] if "pip install" in rest]
    assert "-r requirements.lock" in installs[0]
    assert "[telemetry]" in installs[1]


def test_the_image_runs_as_a_user_without_privileges():
    user, group = last("USER").split(":")
    assert int(user) > 1000
    assert int(group) > 1000
    made = [rest for name, rest in stages()[-1] if name == "RUN"]
    assert any([f"--uid {user}" in rest and f"--home-dir {last('VOLUME')}" in rest for rest in made])


def test_the_image_runs_a_node_and_looks_after_it():
    assert json.loads(last("ENTRYPOINT")) == ["demaq"]
    options = parse_command(json.loads(last("CMD")))
    assert options["http"] == ("0.0.0.0", PORT)
    assert str(options["place"].folder).startswith(last("VOLUME"))
    assert last("EXPOSE") == str(PORT)
    check = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    assert check[0] == "python"
    assert check[-1] == f"http://127.0.0.1:{PORT}{HEALTH}"
    assert check[1] in [rest.split()[-1] for name, rest in stages()[-1] if name == "COPY"]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """It is not logged."""


def test_the_health_check_says_whether_a_page_is_answered(tmp_path: Path):
    def check(address: str) -> int:
        return subprocess.run([sys.executable, DEPLOY / "healthcheck.py", address], check=False).returncode

    (tmp_path / "healthz").write_text("ok")
    handler = partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        assert check(f"{address}/healthz") == 0
        assert check(f"{address}/other") == 1
        server.shutdown()
    assert check("http://127.0.0.1:9/healthz") == 1
    assert check("nothing") == 1


# systemd


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "demaq.service")
    return parser


def test_the_unit_runs_a_node_with_what_it_may_write():
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/opt/demaq/bin/demaq"
    options = parse_command(arguments)
    assert str(options["place"].folder).startswith(f"/var/lib/{service['StateDirectory']}/")
    assert options["settings"] == Path("/etc/demaq/settings.toml")
    assert service["NoNewPrivileges"] == service["ProtectHome"] == service["DynamicUser"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    text = (DEPLOY / "demaq.service").read_text()
    there = tmp_path / "demaq.service"
    there.write_text(text.replace("/opt/demaq/bin/demaq", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", there], capture_output=True, text=True, check=False, timeout=60
    )
    if "Failed to" in found.stderr and "demaq.service" not in found.stderr:
        pytest.skip(found.stderr)  # there is no systemd to speak of
    assert (found.returncode, found.stderr) == (0, "")


# Kubernetes


def manifests() -> dict[tuple[str, str], Any]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes" / "demaq.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def container() -> tuple[dict[str, Any], dict[str, Any]]:
    pod = manifests()["StatefulSet", "demaq"]["spec"]["template"]["spec"]
    [found] = pod["containers"]
    return pod, found


def test_probes_ask_for_pages_of_the_node_at_its_port():
    _, found = container()
    paths = {name: found[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": HEALTH, "livenessProbe": HEALTH, "readinessProbe": READINESS}
    [port] = found["ports"]
    assert {found[name]["httpGet"]["port"] for name in paths} == {port["name"]}
    assert parse_command(found["args"])["http"] == ("0.0.0.0", port["containerPort"]) == ("0.0.0.0", PORT)
    service = manifests()["Service", "demaq"]
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    notes = service["metadata"]["annotations"]
    assert (notes["prometheus.io/path"], notes["prometheus.io/port"]) == (METRICS, str(PORT))


def test_the_pod_runs_as_the_user_of_the_image_and_may_do_nothing_else():
    pod, found = container()
    user, group = [int(number) for number in last("USER").split(":")]
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (user, group, group)
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    assert found["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False


def test_the_folders_of_the_pod_are_mounted_and_only_that_of_the_store_is_kept():
    pod, found = container()
    options = parse_command(found["args"])
    mounts = {mount["name"]: mount["mountPath"] for mount in found["volumeMounts"]}
    spec = manifests()["StatefulSet", "demaq"]["spec"]
    claims = [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]]
    assert sorted(mounts) == sorted([*claims, *[volume["name"] for volume in pod["volumes"]]])
    assert claims == ["store"]
    assert str(options["place"].folder).startswith(mounts["store"])
    assert mounts["store"] == last("VOLUME")
    assert options["application"] == (mounts["app"],)
    assert options["settings"].parent == Path(mounts["settings"])
    for volume in pod["volumes"]:
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in manifests()
    assert spec["replicas"] == 1
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == manifests()["Service", "demaq"]["spec"]["selector"] == labels


def test_the_application_and_the_settings_of_the_manifests_are_right(tmp_path: Path):
    (tmp_path / "app.dmq").write_text(manifests()["ConfigMap", "demaq-app"]["data"]["app.dmq"])
    assert check_application([tmp_path / "app.dmq"], None).diagnostics == []
    (tmp_path / "settings.toml").write_text(manifests()["ConfigMap", "demaq-settings"]["data"]["settings.toml"])
    found = read_settings(tmp_path / "settings.toml", incoming=["orders"], outgoing=[])
    assert found.metrics == "open"
    assert found.telemetry.sample == 0.01
