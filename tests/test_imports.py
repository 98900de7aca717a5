"""What importing costs, and that what is installed as one package imports under one name."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

HEAVY: Final = ("zmq", "cloudpickle", "pynvml", "msgpack", "click", "loguru", "psutil")
FRAMEWORKS: Final = ("torch", "tensorflow", "jax", "numpy", "cupy", "pycuda")


def modules() -> list[str]:
    """Every module of ours, under the name it is installed by."""
    found = []
    for folder, package in (
        ("grn_zmq", "grn_zmq"),
        ("broker", "grn_zmq.broker"),
        ("workers", "grn_zmq.workers"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found.append(".".join([package, *(part for part in parts if part != "__init__")]))
    return found


def isolated(code: str, *words: str) -> str:
    """What a fresh interpreter elsewhere says; it sees what is installed, nothing else."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *words], cwd="/", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOADED: Final = "import sys; print([m for m in sys.argv[1:] if m in sys.modules])"


def test_r96_s28_importing_the_package_loads_nothing_heavy() -> None:
    loaded = isolated(f"import grn_zmq; {LOADED}", *HEAVY, *FRAMEWORKS)

    assert loaded.strip() == "[]"


def test_decorating_a_function_loads_nothing_heavy() -> None:
    code = "import grn_zmq as grn; f = grn.job(lambda x: x); grn.job(memory='1GiB')"
    loaded = isolated(f"{code.rpartition(';')[0]}; {LOADED}", *HEAVY, *FRAMEWORKS)

    assert loaded.strip() == "[]"


def test_r96_broker_workers_and_commands_load_no_framework() -> None:
    everything = "; ".join(f"import {name}" for name in modules())

    assert isolated(f"{everything}; {LOADED}", *FRAMEWORKS).strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    code = "import grn_zmq; print([n for n in grn_zmq.__all__ if not hasattr(grn_zmq, n)])"

    assert isolated(code).strip() == "[]"
    assert "no_such_name" not in isolated("import grn_zmq; print(dir(grn_zmq))")


def test_a_name_that_is_none_raises_attribute_error() -> None:
    import grn_zmq

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = grn_zmq.no_such_name


def test_every_module_imports_under_its_installed_name_from_elsewhere() -> None:
    """An absolute `from broker.jobs import …` works in a checkout, and only there."""
    names = modules()
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('broker', 'workers')])"
    )

    assert len(names) > 60
    assert isolated(code, *names).strip() == "[]"


def test_importing_a_module_has_no_effect() -> None:
    """No process, thread, file or signal handler comes from an import."""
    code = (
        "import importlib, os, signal, sys, threading\n"
        "before = set(os.listdir('/proc/self/fd'))\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(threading.active_count(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,"
        " len(set(os.listdir('/proc/self/fd')) - before) <= 1)"
    )

    assert isolated(code, *modules()).strip() == "1 True True"


def test_the_broker_never_loads_what_unpickles_for_users() -> None:
    names = [name for name in modules() if name.startswith("grn_zmq.broker")]
    imports = "; ".join(f"import {name}" for name in names)

    assert isolated(f"{imports}; {LOADED}", "cloudpickle").strip() == "[]"
