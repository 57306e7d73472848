"""What a schema's ``format`` demands, as an expression of what stands between the quotes, or as a range."""

from __future__ import annotations

_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"[0-9]{{3}}[1-9]-{_DAY}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_COUNT = "[0-9]{1,6}"
_CLOCK = f"T(?:{_COUNT}H(?:{_COUNT}M(?:{_COUNT}S)?)?|{_COUNT}M(?:{_COUNT}S)?|{_COUNT}S)"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PATH = r"[A-Za-z0-9._\~!$\&'()*+,;=:@\-]"

STRINGS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": f"P(?:{_COUNT}W|{_COUNT}D(?:{_CLOCK})?|{_CLOCK})",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "ipv4": rf"(?:{_BYTE}\.){{3}}{_BYTE}",
    "ipv6": "[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}",
    "hostname": rf"{_LABEL}(?:\.{_LABEL}){{0,4}}",
    "email": rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL}){{1,4}}",
    "uri": rf"https?://{_LABEL}(?:\.{_LABEL}){{0,4}}(?::[0-9]{{1,4}})?(?:/{_PATH}*)*(?:\?(?:{_PATH}|/)*)?",
}

# Of what a string is for, not of what it looks like: pydantic's and OpenAPI's.
FREE = ("password", "path", "file-path", "directory-path", "binary")

# OpenAPI's: any number fits the last two.
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (None, None),
    "double": (None, None),
}
