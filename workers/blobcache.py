"""Functions and contexts a worker keeps at hand; what falls out is asked for again."""

from collections import OrderedDict
from collections.abc import Set
from typing import Final

KEEP: Final = 256
KEEP_BYTES: Final = 128 << 20


class BlobCache:
    """The most recently used blobs, by digest."""

    def __init__(self) -> None:
        self._blobs: OrderedDict[str, bytes] = OrderedDict()

    def put(self, digest: str, data: bytes, needed: Set[str] = frozenset()) -> None:
        """Keep a blob; the least recently used others go, unless a run waits with them."""
        self._blobs[digest] = data
        self._blobs.move_to_end(digest)
        size = sum(map(len, self._blobs.values()))
        for old in [one for one in self._blobs if one not in needed and one != digest]:
            if len(self._blobs) <= KEEP and size <= KEEP_BYTES:
                return
            size -= len(self._blobs.pop(old))

    def get(self, digest: str) -> bytes:
        self._blobs.move_to_end(digest)
        return self._blobs[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._blobs
