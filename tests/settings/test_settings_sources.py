"""Where settings come from, which source wins, and what is said about mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from extender_api import settings_fields
from extender_api.errors import SettingsError
from extender_api.settings import Settings, milliseconds
from extender_api.settings_sources import load
from topology import domains, vocabulary

WriteFile = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path) -> WriteFile:
    def write(text: str) -> Path:
        path = tmp_path / "tangram.yaml"
        path.write_text(text)
        return path

    return write


def problems(*args: Any, **kwargs: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(*args, **kwargs)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_defaults() -> None:
    found = load()
    assert found == Settings()
    assert found.scheduler_name == vocabulary.DEFAULT_SCHEDULER_NAME
    assert (found.extender.address, found.ops.address) == ("127.0.0.1:8888", "127.0.0.1:8889")
    assert found.devices.resources == vocabulary.DEFAULT_DEVICE_RESOURCES
    assert not found.devices.shares_by_default
    assert found.devices.reserve_mib == 0
    assert found.placement.policy == "rsv"


def test_later_sources_win(config: WriteFile) -> None:
    path = config("gate: {max_released: 1, fact_ttl_s: 1}\nlog: {level: error}\nlease: {name: from-file}\n")
    environ = {"TANGRAM_GATE__MAX_RELEASED": "2", "TANGRAM_LOG__LEVEL": "warning", "PATH": "/bin"}
    found = load(path, environ, {"gate.max_released": "3", "gate.fact_ttl_s": None})
    assert found.gate.max_released == 3
    assert found.log.level == "warning"
    assert found.lease.name == "from-file"
    assert found.gate.fact_ttl_s == 1


def test_the_file_may_be_named_by_the_environment(config: WriteFile, tmp_path: Path) -> None:
    path = config("scheduler_name: one\n")
    assert load(environ={"TANGRAM_CONFIG": str(path)}).scheduler_name == "one"
    other = tmp_path / "other.yaml"
    other.write_text("scheduler_name: two\n")
    assert load(other, {"TANGRAM_CONFIG": str(path)}).scheduler_name == "two"


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("offline", "true", True),
        ("offline", "no", False),
        ("nomination.min_nodes", "0", 0),
        ("reasons.tell_after_s", "0.5", 0.5),
        ("log.level", "WARNING", "warning"),
        ("devices.resources", "nvidia.com/gpu, amd.com/gpu", ("nvidia.com/gpu", "amd.com/gpu")),
        ("devices.resources", '["nvidia.com/gpu"]', ("nvidia.com/gpu",)),
        ("devices.catalogue", "NVIDIA-L4=23034,X=5", {"NVIDIA-L4": 23034, "X": 5}),
        ("devices.catalogue", '{"NVIDIA-L4": 23034}', {"NVIDIA-L4": 23034}),
        ("topology.levels", "example.com/block,kubernetes.io/hostname", ("example.com/block", domains.HOSTNAME)),
        ("topology.levels", "generic", domains.PRESETS["generic"]),
        ("extender.address", "[::1]:0", "[::1]:0"),
        ("kubeconfig", "~/x", Path.home() / "x"),
        ("lease.mode", "off", "off"),
        ("queues.file", "~/queues.yaml", Path.home() / "queues.yaml"),
        ("queues.priority_classes", "high,low", ("high", "low")),
        ("queues.starving_after_s", "0", 0.0),
        ("usage.source", "own", "own"),
    ],
)
def test_text_is_understood(key: str, text: str, expected: object) -> None:
    name = f"TANGRAM_{key.replace('.', '__').upper()}"
    for found in (load(environ={name: text}), load(flags={key: text})):
        value: Any = found
        for part in key.split("."):
            value = getattr(value, part)
        assert value == expected


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("lease: {mode: off}", "mode", "off"),  # which YAML reads as false
        ("lease:\n  # mode: follow\n", "mode", "off"),
        ("lease: {hostname: null}", "hostname", None),
        ("", "mode", "off"),
    ],
)
def test_what_yaml_makes_of_it(config: WriteFile, text: str, key: str, expected: object) -> None:
    assert getattr(load(config(text)).lease, key) == expected


ADDRESS = "HOST:PORT, e.g. 127.0.0.1:8888"
RESOURCES = "resource names such as nvidia.com/gpu"
RELEASED = "a whole number from 1 to 100,000"


@pytest.mark.parametrize(
    ("text", "key", "given", "allowed"),
    [
        ("lease: {mode: folow}", "lease.mode", "'folow'", "follow or off"),
        ("gate: {max_released: 0}", "gate.max_released", "0", RELEASED),
        ("gate: {max_released: 1.5}", "gate.max_released", "1.5", RELEASED),
        ("gate: 7", "gate", "7", "the keys max_released, booking_deadline_s, require_device_variable, fact_ttl_s"),
        ("offline: maybe", "offline", "'maybe'", "true or false"),
        (
            "limits: {events_per_second: .inf}",
            "limits.events_per_second",
            "inf",
            "a number above 0, at most 10000",
        ),
        ("ops: {address: 8889}", "ops.address", "8889", ADDRESS),
        ("ops: {address: '::1:80'}", "ops.address", "'::1:80' (an IPv6 address stands in brackets)", ADDRESS),
        ("ops: {address: 'x:99999'}", "ops.address", "'x:99999' (not HOST:PORT)", ADDRESS),
        ("devices: {resources: []}", "devices.resources", "[]", RESOURCES),
        ("devices: {resources: [a/b, gpu]}", "devices.resources[1]", "['a/b', 'gpu']", RESOURCES),
        (
            "devices: {catalogue: {L4: 0}}",
            "devices.catalogue[L4]",
            "{'L4': 0}",
            "product names with MiB, e.g. NVIDIA-L4: 23034",
        ),
        ("scheduler_name: Big", "scheduler_name", "'Big'", "lower-case letters, digits, '-' and '.'"),
        ("queues: {reservations: -1}", "queues.reservations", "-1", "a whole number from 0 to 1,024"),
        ("usage: {source: maybe}", "usage.source", "'maybe'", "off or own or prometheus"),
        ("usage: {prometheus_url: prometheus}", "usage.prometheus_url", "'prometheus'", "an http or https URL"),
        ("usage: {sample_s: 300}", "usage.sample_s", "300", "a number from 1 to 60"),
    ],
)
def test_mistakes_name_key_source_given_and_allowed(
    config: WriteFile, text: str, key: str, given: str, allowed: str
) -> None:
    path = config(text)
    assert problems(path) == (f"{key} (file {path}): given {given}; allowed: {allowed}",)


def test_keys_that_are_none_are_mistakes(config: WriteFile) -> None:
    path = config("lease: {naem: x}")
    assert problems(path) == (f"lease.naem (file {path}): no such setting; did you mean lease.name?",)


def test_mistakes_in_levels_say_which_presets_there_are() -> None:
    (line,) = problems(flags={"topology.levels": "a b"})
    assert line.startswith("topology.levels (flag --topology-levels): given 'a b' ('a b' is neither")
    assert "coreweave-rack" in line


def test_the_source_that_won_is_the_one_named(config: WriteFile) -> None:
    path = config("gate: {max_released: -1}")
    (line,) = problems(path, {"TANGRAM_GATE__MAX_RELEASED": "-2"})
    assert line.startswith("gate.max_released (environment TANGRAM_GATE__MAX_RELEASED): given '-2';")
    (line,) = problems(path, {"TANGRAM_GATE__MAX_RELEASED": "-2"}, {"gate.max_released": "-3"})
    assert line.startswith("gate.max_released (flag --gate-max-released): given '-3';")
    assert load(path, {}, {"gate.max_released": "3"}).gate.max_released == 3


def test_all_mistakes_are_told_at_once(config: WriteFile) -> None:
    found = problems(
        config("unknown: 1\nlog: {level: loud}"), {"TANGRAM_LEASE__MODE": "x"}, {"devices.reserve_mib": "-1", "no": 1}
    )
    assert [line.split(" ")[0] for line in found] == ["unknown", "no", "devices.reserve_mib", "lease.mode", "log.level"]


@pytest.mark.parametrize(
    "name",
    [
        "TANGRAM_SERVICE_HOST",
        "TANGRAM_SERVICE_PORT",
        "TANGRAM_SERVICE_PORT_OPS",
        "TANGRAM_PORT",
        "TANGRAM_PORT_8889_TCP",
        "TANGRAM_PORT_8889_TCP_ADDR",
        "TANGRAM_OPS_SERVICE_HOST",
        "TANGRAM_OPS_PORT_8889_TCP_PROTO",
    ],
)
def test_what_kubernetes_adds_for_services_is_no_setting(name: str) -> None:
    assert load(environ={name: "tcp://10.0.0.1:8889"}) == Settings()


def test_unknown_variables_are_mistakes_and_empty_ones_are_absent() -> None:
    (line,) = problems(environ={"TANGRAM_GATE__MAX_RELEASE": "1"})
    assert line == (
        "gate.max_release (environment TANGRAM_GATE__MAX_RELEASE): no such setting; did you mean gate.max_released?"
    )
    assert load(environ={"TANGRAM_KUBECONFIG": ""}) == Settings()


def test_usage_from_prometheus_needs_its_url(config: WriteFile) -> None:
    line = "usage.source is prometheus, which needs usage.prometheus_url"
    assert problems(config("usage: {source: prometheus}")) == (line,)
    found = load(config("usage: {source: prometheus, prometheus_url: 'http://p:9090'}")).usage
    assert (found.source, found.prometheus_url) == ("prometheus", "http://p:9090")


def test_usage_is_off_and_queues_have_defaults(config: WriteFile) -> None:
    found = load(config("usage: {source: off}"))
    assert found == Settings()
    assert found.usage.source == "off"
    assert (found.queues.file, found.queues.default) == (None, None)
    assert found.queues.priority_classes == vocabulary.PRIORITY_CLASSES
    assert found.queues.starving_after_s == 600


def test_two_listeners_need_two_addresses() -> None:
    line = "extender.address and ops.address must differ; both are 127.0.0.1:8889"
    assert problems(flags={"extender.address": "127.0.0.1:8889"}) == (line,)
    assert load(flags={"extender.address": "127.0.0.1:0", "ops.address": "127.0.0.1:0"}).ops.address == "127.0.0.1:0"


def test_long_values_are_cut() -> None:
    (line,) = problems(flags={"log.level": "x" * 500})
    assert len(line) < 200
    assert "…" in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 1"),
        ("gate:\n  max_released: 1\n  max_released: 2\n", "line 3: max_released is given twice"),
        ("- a\n", "allowed: a mapping of settings"),
        ("a: \x00", "special characters are not allowed"),
    ],
)
def test_files_that_cannot_be_used(config: WriteFile, text: str, said: str) -> None:
    path = config(text)
    (line,) = problems(path)
    assert line.startswith(f"file {path}")
    assert said in line


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert problems(path) == (f"file {path}: cannot be read: No such file or directory",)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xff")
    (line,) = problems(binary)
    assert line.startswith(f"file {binary}: cannot be read: ")


def test_every_setting_is_explained() -> None:
    fields = settings_fields.fields()
    for field in fields.values():
        assert field.description.endswith("."), field.key
        assert field.allowed, field.key
    assert all(settings_fields.sections().values())
    for distinct in ({field.env for field in fields.values()}, {field.flag for field in fields.values()}):
        assert len(distinct) == len(fields)


def test_settings_are_read_only() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().gate.max_released = 5  # type: ignore[misc]


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 1000), (0.0004, 1), (0.5, 500), (60, 60_000)])
def test_milliseconds(seconds: float, expected: int) -> None:
    assert milliseconds(seconds) == expected
