"""Functions and contexts, kept by digest while a connected client or a live job needs them.

The journal has those that a job needed, until they go from here too.
"""

from dataclasses import dataclass, field
from typing import Final

from grn_zmq.records import Blob

from .changes import Changes

# Without a live job that needs it, a blob is kept only to spare its client sending it again.
MOST_UNUSED: Final = 256
MOST_UNUSED_BYTES: Final = 64 << 20


@dataclass(slots=True)
class _Kept:
    blob: Blob
    sessions: set[str] = field(default_factory=set)
    jobs: int = 0
    stored: bool = False


@dataclass(slots=True)
class Blobs:
    _changes: Changes = field(default_factory=Changes)
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def restore(self, blob: Blob) -> None:
        """Take back what the journal had."""
        self._kept[blob.digest] = _Kept(blob, stored=True)

    def put(self, blob: Blob, session: str) -> None:
        self._kept.setdefault(blob.digest, _Kept(blob)).sessions.add(session)
        self._bound(but=blob.digest)

    def get(self, digest: str) -> Blob | None:
        kept = self._kept.get(digest)
        return kept.blob if kept else None

    def hold(self, digest: str, jobs: int = 1) -> None:
        """A live job needs this blob, or so many do."""
        kept = self._kept[digest]
        kept.jobs += jobs
        if not kept.stored:
            kept.stored = True
            self._changes.batch.blobs.append(kept.blob)

    def let_go(self, digest: str, jobs: int = 1) -> None:
        """A job that needed this blob has ended, or so many have."""
        kept = self._kept.pop(digest)
        self._kept[digest] = kept  # the last used stand last
        kept.jobs -= jobs
        self._drop_unneeded(digest)
        self._bound()

    def _bound(self, but: str = "") -> None:
        """Let go of what was not used for longest; its client sends it again if asked.

        Args:
            but: What has just come, and is about to be used.
        """
        kept = [one for digest, one in self._kept.items() if digest != but]
        unused = [one.blob for one in kept if not one.jobs]
        count, size = len(unused), sum(len(blob.data) for blob in unused)
        for blob in unused:
            if count <= MOST_UNUSED and size <= MOST_UNUSED_BYTES:
                return
            self._drop(blob.digest)
            count, size = count - 1, size - len(blob.data)

    def forget(self, session: str) -> None:
        """This client is gone; what only it needed goes too."""
        for digest in [d for d, kept in self._kept.items() if session in kept.sessions]:
            self._kept[digest].sessions.discard(session)
            self._drop_unneeded(digest)

    def drop_unneeded(self) -> None:
        """Let go of what neither a job nor a client needs."""
        for digest in list(self._kept):
            self._drop_unneeded(digest)

    def _drop_unneeded(self, digest: str) -> None:
        kept = self._kept[digest]
        if not kept.sessions and not kept.jobs:
            self._drop(digest)

    def _drop(self, digest: str) -> None:
        if self._kept.pop(digest).stored:
            self._changes.batch.lost_blobs.append(digest)

    def __contains__(self, digest: str) -> bool:
        return digest in self._kept

    def __len__(self) -> int:
        return len(self._kept)
