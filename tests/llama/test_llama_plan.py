"""What would be run and whether it fits, from made-up models and machines; the checks of a real set-up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gguf_files import LLAMA, gguf
from llama_world import World

from agentwire.provider import Check, ConfigError, ProviderSettings
from agentwire_llama import machine
from agentwire_llama.gguf import Header
from agentwire_llama.machine import Machine
from agentwire_llama.options import LlamaOptions
from agentwire_llama.plan import LaunchPlan, make_plan
from agentwire_llama.service import Llama

GIB = 2**30
SHAPE: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 32,
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
}
"""A model of 8 B weights: 128 KiB a token, 4 GiB for 32,768."""


def planned(
    total: float, free: float, *, accelerator: bool = False, trained: int = 131072, **options: Any
) -> LaunchPlan:
    header = Header(3, 5 * GIB, 5 * GIB, 291, 8_000_000_000, {**SHAPE, "llama.context_length": trained})
    return make_plan(
        LlamaOptions(**options),
        binary=Path("/bin/llama-server"),
        model_file=Path("/m/eight.gguf"),
        model="eight",
        header=header,
        weights=5 * GIB,
        machine=Machine(int(total * GIB), int(free * GIB), accelerator),
        environ={"PATH": "/bin", "LLAMA_ARG_THREADS": "3", "GITHUB_TOKEN": "x", "my_api_key": "y"},
    )


@pytest.mark.parametrize(
    ("total", "free", "tokens"),
    [
        (64, 60, 32768),
        (16, 9.4, 32768),
        (16, 9.3, 16384),
        (16, 6.5, 8192),
        (16, 6.0, 4096),
        (16, 1, 4096),
        (0, 0, 16384),
    ],
)
def test_as_much_context_as_fits(total: float, free: float, tokens: int) -> None:
    plan = planned(total, free)
    assert plan.context_size == tokens
    assert plan.need.cache == tokens * 128 * 1024
    assert plan.problem == ""


def test_no_more_context_than_the_model_knows() -> None:
    assert planned(64, 60, trained=2048).context_size == 2048
    assert planned(64, 60, trained=20000).context_size == 20000
    assert planned(64, 60, trained=0).context_size == 8192
    plan = planned(64, 60, trained=2048, context_size=4096)
    assert plan.context_size == 4096
    assert plan.warnings == ("the model was trained for 2048 tokens, not 4096",)


def test_a_model_that_does_not_fit() -> None:
    plan = planned(4, 3.5)
    assert plan.problem == "5.9 GiB are needed (weights 5.0 GiB, 4096 tokens 0.5 GiB), and the machine has 4.0 GiB"
    assert planned(4, 3.5, memory_check=False).problem == ""
    assert planned(4, 3.5, memory_check=False).warnings == (plan.problem,)
    on_gpu = planned(4, 3.5, accelerator=True)
    assert on_gpu.problem == ""
    assert "the rest must fit on the GPU" in on_gpu.warnings[0]


def test_a_machine_that_is_busy_now() -> None:
    plan = planned(16, 4)
    assert plan.problem == ""
    assert plan.warnings[0].endswith("and 4.0 GiB of 16.0 GiB are free now")


def test_the_command_line() -> None:
    plan = planned(64, 60, gpu_layers=0, threads=6, idle_seconds=600, host="localhost", extra_args=["--mlock"], port=81)
    assert plan.argv(99) == [
        "/bin/llama-server", "--model", "/m/eight.gguf", "--alias", "eight", "--host", "127.0.0.1",
        "--ctx-size", "32768", "--jinja", "--n-gpu-layers", "0", "--threads", "6", "--sleep-idle-seconds", "600",
        "--mlock", "--port", "99",
    ]  # fmt: skip
    assert plan.url(99) == "http://127.0.0.1:99"
    assert planned(64, 60, host="::1").url(99) == "http://[::1]:99"
    assert plan.environ == {"PATH": "/bin"}
    assert plan.facts()["args"][-2:] == ["--port", "81"]


# --- checks ---


def checked(world: World, **options: Any) -> dict[str, Check]:
    return {check.name: check for check in Llama(world.settings(**options)).checks()}


def test_all_is_well(world: World) -> None:
    checks = checked(world, context_size=64)
    assert list(checks) == ["binary", "model", "memory"]
    assert {check.status for check in checks.values()} == {"ok"}
    assert checks["binary"].detail == str(world.binary)
    assert checks["model"].detail.startswith(f"{world.model}: Tiny, llama, F16, 0 M weights, 4 layers, 8192 tokens")
    assert checks["memory"].detail.startswith("about 0.4 GiB for 64 tokens of context; the machine has ")


def test_what_went_missing_since(world: World) -> None:
    provider = Llama(world.settings())
    world.binary.unlink()
    world.model.unlink()
    checks = provider.checks()
    assert [(check.name, check.status) for check in checks] == [("binary", "fail"), ("model", "fail")]
    assert all(check.fix for check in checks)
    with pytest.raises(ConfigError, match="was not found on PATH") as caught:
        provider.plan()
    assert caught.value.kind == "binary_missing"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (gguf(LLAMA)[:-3], "cannot be used: it is cut off within its header"),
        (gguf(LLAMA, version=1), "cannot be used: it is of version 1"),
        (gguf(LLAMA, [(64, 64)])[:-1000], "is cut off: 1000 bytes are missing"),
    ],
)
def test_a_model_that_is_damaged(world: World, data: bytes, text: str) -> None:
    world.model.write_bytes(data)
    provider = Llama(world.settings())
    check = provider.checks()[-1]
    assert (check.name, check.status) == ("model", "fail")
    assert check.detail == f"the model {world.model} {text}" or check.detail.startswith(
        f"the model {world.model} {text}"
    )
    with pytest.raises(ConfigError) as caught:
        provider.plan()
    assert caught.value.kind == "model_missing"


def test_a_part_that_is_missing(world: World) -> None:
    first = world.model.rename(world.root / "big-00001-of-00002.gguf")
    provider = Llama(world.settings(model_file=str(first)))
    assert (
        provider.checks()[-1].detail
        == f"{world.root}/big-00002-of-00002.gguf cannot be read: No such file or directory"
    )
    (world.root / "big-00002-of-00002.gguf").write_bytes(first.read_bytes())
    plan = provider.plan()
    assert plan["memory"]["weights"] == 2 * first.stat().st_size
    assert plan["model"] == "big"


def test_a_model_that_this_machine_has_no_memory_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "look", lambda: Machine(GIB // 8, GIB // 16))
    provider = Llama(world.settings())
    assert provider.checks()[-1].status == "fail"
    with pytest.raises(ConfigError, match=r"0\.4 GiB are needed .* take a smaller model") as caught:
        provider.plan()
    assert caught.value.kind == "model_plan_error"
    lenient = Llama(world.settings(memory_check=False))
    assert lenient.checks()[-1].status == "warn"
    assert lenient.plan()["warnings"]


def test_a_plan_as_json(world: World) -> None:
    plan = Llama(world.settings(model="tiny", context_size=128, gpu_layers=3)).plan()
    memory = plan.pop("memory")
    assert plan == {
        "model": "tiny",
        "model_file": str(world.model),
        "binary": str(world.binary),
        "args": [
            "--model", str(world.model), "--alias", "tiny", "--host", "127.0.0.1", "--ctx-size", "128", "--jinja",
            "--n-gpu-layers", "3", "--port", "0",
        ],
        "host": "127.0.0.1",
        "port": 0,
        "context_size": 128,
        "gpu_layers": 3,
        "warnings": [],
        "log_file": str(world.log),
    }  # fmt: skip
    assert set(memory) == {"weights", "cache", "working", "total", "available"}
    assert memory["weights"] == world.model.stat().st_size
    assert world.starts == []
    assert not world.log.exists()


# --- machines ---


def test_this_machine_has_memory() -> None:
    here = machine.look()
    assert here.total > GIB // 2
    if sys.platform in ("linux", "darwin"):
        assert 0 < here.available <= here.total


def fake(root: Path, **files: str) -> Path:
    (root / "proc").mkdir()
    (root / "proc" / "meminfo").write_text("MemTotal: 16384 kB\nMemAvailable:    8192 kB\nHugePages_Total:       0\n")
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_linux(tmp_path: Path) -> None:
    assert machine.linux(tmp_path) == Machine()
    assert machine.linux(fake(tmp_path)) == Machine(16384 * 1024, 8192 * 1024)


def test_a_container_has_less(tmp_path: Path) -> None:
    limits = {"sys__fs__cgroup__memory_dot_max": "1000000\n", "sys__fs__cgroup__memory_dot_current": "400000\n"}
    assert machine.linux(fake(tmp_path, **limits)) == Machine(1000000, 600000)


@pytest.mark.parametrize("limit", ["max\n", "99999999999999\n"])
def test_a_container_without_a_limit(tmp_path: Path, limit: str) -> None:
    assert machine.linux(fake(tmp_path, sys__fs__cgroup__memory_dot_max=limit)).total == 16384 * 1024


def test_a_device_of_its_own_memory(tmp_path: Path) -> None:
    assert machine.linux(fake(tmp_path, dev__nvidia0="")).accelerator


def test_macos() -> None:
    told = (
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        "Pages free:                                3000.\n"
        "Pages active:                            200000.\n"
        "Pages inactive:                            1000.\n"
        "Pages speculative:                          100.\n"
        "Pages wired down:                        100000.\n"
        "Pages purgeable:                             10.\n"
    )
    assert machine.vm_stat(told) == 4110 * 16384
    assert machine.vm_stat("") == 0


def test_settings_are_not_needed_twice(world: World) -> None:
    """The environment's keys for other services are nobody's business here."""
    settings = ProviderSettings(model=str(world.model), environ={**world.environ, "OPENAI_BASE_URL": "nonsense"})
    assert Llama(settings).checks()[0].ok
