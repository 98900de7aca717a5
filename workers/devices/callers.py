"""The callers of inline jobs: what they held on a GPU before belongs to no job of theirs."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from .device import Sample, Tree


class Callers:
    """Remembers what each caller held when its job was first seen.

    Jobs that one process runs inside each other share its memory: each has what came
    after its own beginning and before that of the next.
    """

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def divide(self, found: Sample, trees: Mapping[str, Tree]) -> Sample:
        """Take from inline jobs what is not theirs; that is foreign."""
        by_tree, seen = dict(found.by_tree), set(found.seen)
        inline = {key: tree.root_pid for key, tree in trees.items() if tree.counts_root}
        self._before = {key: count for key, count in self._before.items() if key in inline}
        for pid in set(inline.values()):
            keys = [key for key in trees if inline.get(key) == pid]
            held_bytes = sum(by_tree[key] for key in keys)
            by_tree |= self._shares(keys, held_bytes)
            if seen & set(keys):
                seen |= set(keys)
        more = sum(found.by_tree.values()) - sum(by_tree.values())
        return replace(
            found,
            by_tree=by_tree,
            foreign_bytes=found.foreign_bytes + more,
            seen=frozenset(seen),
        )

    def _shares(self, keys: list[str], held_bytes: int) -> dict[str, int]:
        for key in keys:
            self._before.setdefault(key, held_bytes)
        begun = [min(self._before[key], held_bytes) for key in keys]
        return {
            key: max(0, end - start)
            for key, (start, end) in zip(keys, pairwise([*begun, held_bytes]), strict=True)
        }
