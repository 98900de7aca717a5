"""Functions and contexts a worker keeps at hand; what falls out is asked for again."""

from collections import OrderedDict
from typing import Final

KEEP: Final = 256


class BlobCache:
    """The most recently used blobs, by digest."""

    def __init__(self) -> None:
        self._blobs: OrderedDict[str, bytes] = OrderedDict()

    def put(self, digest: str, data: bytes) -> None:
        self._blobs[digest] = data
        self._blobs.move_to_end(digest)
        while len(self._blobs) > KEEP:
            self._blobs.popitem(last=False)

    def get(self, digest: str) -> bytes:
        self._blobs.move_to_end(digest)
        return self._blobs[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._blobs
