"""Judge cards: how well each judge agrees with people on gold (docs/agreement.md)."""
