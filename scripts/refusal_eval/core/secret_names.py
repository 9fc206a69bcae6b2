"""Environment variables that hold secrets, by their names."""

import re

# How many tokens, and no token: VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE.
_COUNT = r"(?!THRESHOLD|PER_|LIMIT|COUNT|BUDGET|SIZE)"
# Words of a name, between `_`, or parts of a word. Harmless are PWD, OLDPWD, XAUTHORITY and a desktop's session.
_SECRET = re.compile(
    rf"TOKEN(_{_COUNT}|\d|$)|(?<!MAX_)(?<!MIN_)(?<!NUM_)(?<!TOTAL_)(?<!FAS)TOKENS(_{_COUNT}|\d|$)"
    r"|SECRET|PASSW|(PASS|SEED|KEY|RECOVERY)_?PHRASE|PASSCODE|CREDENTIAL|BEARER|COOKIE|WEBHOOK|MNEMONIC|CONN(ECTION)?_?STR(ING)?|HTPASSWD"
    r"|(?<!BY)(?<!COM)PASS(_?\d+)?$|(^|_)PASS(_|\d)|(?<!^)(?<!^OLD)PWD\d*$|_PWD_"
    r"|(^|_)(CREDS?|PAT|PW|DSN|JWT|OTP|SAS|SIG|SIGNATURE|PRIVATE|NETRC)\d*(_|$)"
    r"|(^|_)[A-Z]?(AUTH|AUTHN|AUTHORI[SZ]ATION)\d*(_|$)|(BASIC|PROXY|HTTP)AUTH$"
    r"|(^|_)(?<!XDG_)(?<!DBUS_)(?<!DESKTOP_)SESSIONS?(_?ID)?(_(?!MANAGER)|\d|$)|SESSIONID"
    r"|(^|_)(API_?)?KEYS?(_ID|_?\d+)?$|(API|ACCESS|AUTH|MASTER|PRIV|PRIVATE|SIGNING|ENCRYPTION|SSH|PASS)_?KEY"
    r"|DATABASE_URL$",
    re.IGNORECASE,
)


def names_a_secret(variable: str) -> bool:
    return _SECRET.search(variable) is not None
