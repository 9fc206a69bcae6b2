"""The command lines of the kit: what they tell, or what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

from refusal_eval.config import ConfigError
from refusal_eval.core.errors import UserError


def told_or_error(work: Callable[[], str]) -> int:
    """Print what `work` returns, or the mistake that it found; return the exit code, 0 or 1."""
    try:
        print(work())
    except (ConfigError, UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
