"""A logger that remembers what it was told."""


class Told:
    """What `logging` and loguru have in common, as far as leases use it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []

    def info(self, text: str, /) -> None:
        self.steps.append(text)

    def warning(self, text: str, /) -> None:
        self.warnings.append(text)
