"""What a hook may be: a command, or a URL. Apart from `hook`, which runs one."""

import re
from typing import Final

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def is_url(hook: str) -> bool:
    """Whether it is a URL to post to, and no command to run."""
    return _scheme_of(hook) in ("http", "https")


def can_be(hook: str) -> bool:
    """Whether it is a command, or a URL that can be posted to."""
    return not _scheme_of(hook) or is_url(hook)


def _scheme_of(hook: str) -> str:
    scheme = _SCHEME.match(hook)
    return scheme[1].lower() if scheme else ""
