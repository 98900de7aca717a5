"""Functions and contexts a worker keeps at hand; what falls out is asked for again."""

from collections import OrderedDict
from collections.abc import Set
from typing import Final

KEEP: Final = 256


class BlobCache:
    """The most recently used blobs, by digest."""

    def __init__(self) -> None:
        self._blobs: OrderedDict[str, bytes] = OrderedDict()

    def put(self, digest: str, data: bytes, needed: Set[str] = frozenset()) -> None:
        """Keep a blob; the least recently used others go, unless a run waits with them."""
        self._blobs[digest] = data
        self._blobs.move_to_end(digest)
        surplus = len(self._blobs) - KEEP
        if surplus > 0:
            for old in [one for one in self._blobs if one not in needed][:surplus]:
                del self._blobs[old]

    def get(self, digest: str) -> bytes:
        self._blobs.move_to_end(digest)
        return self._blobs[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._blobs
