"""JSON with comments and trailing commas, as test files have it."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])', re.DOTALL)


def loads(text: str) -> Any:
    """Reads JSON. Numbers with a fraction or an exponent become decimals that keep their digits.

    >>> loads('{"a": [1.10, "//",], /* none */ "b": 1e2, } // end')
    {'a': [Decimal('1.10'), '//'], 'b': Decimal('1E+2')}
    """
    text = _STRING_OR_COMMENT.sub(lambda found: found[1] or " ", text)
    text = _STRING_OR_COMMA.sub(lambda found: found[1] or "", text)
    return json.loads(text, parse_float=Decimal, strict=False)
