"""What every kind of environment can say; the kinds register themselves by name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ..errors import GrnError
from .requests import Request

# By name, in the order in which they were defined.
KINDS: Final[dict[str, type["Environment"]]] = {}


class BadEnvironment(GrnError, ValueError):
    """An environment that cannot be, or into which this attempt cannot be put."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A named environment: words before a command, and variables.

    The fields of a kind are the keys of its table. `text` is what lists say of it; `python`
    is the interpreter inside, which runs calls of functions.
    """

    kind: ClassVar[str] = ""

    name: str
    version: str = ""
    text: str = ""
    python: str = "python3"
    variables: Mapping[str, str] = field(default_factory=dict)

    def __init_subclass__(cls, **extra: Any) -> None:
        super().__init_subclass__(**extra)
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    @property
    def full_name(self) -> str:
        """`tensorflow-1.4.0`; without a version the name alone."""
        return f"{self.name}-{self.version}" if self.version else self.name

    @property
    def apart(self) -> bool:
        """Whether it has a file system of its own, into which things must be mounted."""
        return False

    def problem(self) -> tuple[str, str] | None:
        """Name a key that cannot be as it is, and say what to write; None if all is well."""
        return None

    def described(self) -> str:
        """Say in a few words what it does."""
        return self.text

    def words(self, request: Request) -> list[str]:
        """Give what stands before the command.

        Raises:
            BadEnvironment: This attempt cannot be put there; the text says why.
        """
        raise NotImplementedError

    @property
    def own_python(self) -> str:
        """The interpreter that `python` means to commands; nothing if it is found as ever."""
        return ""

    def settings(self, request: Request) -> dict[str, str]:
        """Give the variables of the process that runs these words."""
        return dict(self.variables)

    def farewell(self, request: Request) -> list[str]:
        """Give the command that ends what may live on once the words were killed."""
        return []
