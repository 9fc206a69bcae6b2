"""Environment variables that hold secrets, by their names."""

import re

_SECRET = re.compile(
    r"TOKENS?(_|\d|$)|SECRET|PASSW|CREDENTIAL|(^|_)(API_?)?KEY(_ID|_?\d+)?$|APIKEY|(^|_)(PAT|AUTH)(_|$)|_(PWD|DSN)$"
    r"|(DATABASE|WEBHOOK)_URL$",
    re.IGNORECASE,
)


def names_a_secret(variable: str) -> bool:
    """Tell whether a variable of this name may hold a secret, which is neither shown nor handed on."""
    return _SECRET.search(variable) is not None
