"""What is packed into the page of `refusal-eval browse`."""

import base64
import gzip
import json
import re
from typing import Any


def unpacked(page: str) -> dict[str, Any]:
    """Return what is packed into a page: `head`, `prompts`, and `texts` in parts."""
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    packed = json.loads(found[1])
    return {name: [_plain(one) for one in of] if name == "texts" else _plain(of) for name, of in packed.items()}


def _plain(packed: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(packed)))
