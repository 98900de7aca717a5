"""Writes what jobs print to this process's own stdout and stderr, as it comes."""

import codecs
import sys
import threading


class OutputWriter:
    """Bytes go out unchanged where the stream takes bytes, else as text, never torn."""

    def __init__(self) -> None:
        self._decoders: dict[tuple[str, str], codecs.IncrementalDecoder] = {}
        self._lock = threading.Lock()

    def write(self, job_id: str, stream: str, data: bytes) -> None:
        target = sys.stdout if stream == "stdout" else sys.stderr
        if target is None:
            return  # a program without a terminal, such as one under pythonw
        with self._lock:
            try:
                buffer = getattr(target, "buffer", None)
                if buffer is not None:
                    target.flush()
                    buffer.write(data)
                    buffer.flush()
                else:
                    target.write(self._text(job_id, stream, data))
                    target.flush()
            except (OSError, ValueError):
                pass  # the reader of our output is gone; the job itself is not concerned

    def forget(self, job_id: str) -> None:
        """The job has ended; nothing more will come."""
        for stream in ("stdout", "stderr") if self._decoders else ():
            self._decoders.pop((job_id, stream), None)

    def _text(self, job_id: str, stream: str, data: bytes) -> str:
        key = (job_id, stream)
        if key not in self._decoders:
            self._decoders[key] = codecs.getincrementaldecoder("utf-8")("replace")
        return self._decoders[key].decode(data)
