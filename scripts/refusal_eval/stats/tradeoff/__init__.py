"""Over-refusal against safety: pooled rates, joint regions, contrast pairs, topics, languages."""
