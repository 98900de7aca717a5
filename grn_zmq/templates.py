"""What calls of one function have in common: described and checked once, then only named."""

from dataclasses import replace
from typing import Final

from .records import Blob, JobSpec

# A template is nobody's job; the id in it means nothing.
NO_ID: Final = "0" * 32


class Template:
    """A description of calls, all but the id and the arguments. Told apart by identity."""

    __slots__ = ("blobs", "like")

    def __init__(self, like: JobSpec, blobs: tuple[Blob, ...]) -> None:
        self.like = like
        self.blobs = blobs

    def spec(self, job_id: str, payload: bytes, token: str = "") -> JobSpec:
        """Give the description of one call."""
        return replace(self.like, job_id=job_id, payload=payload, token=token)
