"""Reading environments from a file; the kinds that it names by module are imported here."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ..config import BadSetting
from .catalogue import Catalogue
from .environment import BadEnvironment, Environment
from .tables import TABLE, parse_environments


def read_environments(path: str) -> Catalogue:
    """Give what a file offers; nothing for no file.

    Raises:
        BadSetting: It cannot be read, or one of its tables cannot be; the text says which.
    """
    if not path:
        return Catalogue()
    import tomllib  # only where there is a file to read

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"--environments {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSetting(f"--environments {path} cannot be read: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is no TOML: {error}") from None
    if TABLE not in content:
        raise BadSetting(f"{path} has no environments: add a table, [{TABLE}.NAME]")
    try:
        return parse_environments(_at_home(content), path, _import_kind)
    except BadEnvironment as error:
        raise BadSetting(str(error)) from None


def _at_home(value: Any) -> Any:
    """The same with `~/` at the beginning of a text replaced by the home directory."""
    if isinstance(value, str):
        return os.path.expanduser(value) if value.startswith("~/") else value
    if isinstance(value, list):
        return [_at_home(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _at_home(one) for key, one in value.items()}
    return value


def _import_kind(name: str) -> type[Environment] | None:
    """Find `module:Class`.

    Raises:
        BadEnvironment: There is a module, but it cannot be imported, or has no such class.
    """
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        return None
    try:
        found = getattr(import_module(module), attribute, None)
    except Exception as error:
        raise BadEnvironment(
            f"kind = {name!r} cannot be imported: {type(error).__name__}: {error}; modules are "
            f"looked for in {', '.join(one or os.curdir for one in sys.path)}"
        ) from None
    if not isinstance(found, type) or not issubclass(found, Environment) or not found.kind:
        raise BadEnvironment(
            f"kind = {name!r}: {module} has no environment with a kind of that name"
        )
    return found
