"""Libraries to import in advance, as if somebody had installed them."""

from pathlib import Path

# So many modules make a zygote worth its start.
MODULES = 60


def install(directory: Path, name: str, content: str = "", modules: int = MODULES) -> str:
    """Make a package of many modules; return the directory to put on the path."""
    site = directory / "site-packages"
    package = site / name
    package.mkdir(parents=True)
    parts = [f"part{number}" for number in range(modules)]
    for part in parts:
        (package / f"{part}.py").write_text("")
    lines = [*(f"from . import {part}" for part in parts), content]
    (package / "__init__.py").write_text("\n".join(lines))
    return str(site)
