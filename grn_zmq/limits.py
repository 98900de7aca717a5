"""What a job may say of itself at most. Apart from `records`: options need no wire."""

from typing import Final

MAX_NAME: Final = 4096
MAX_PRIORITY: Final = 1_000_000
MAX_RETRIES: Final = 100
