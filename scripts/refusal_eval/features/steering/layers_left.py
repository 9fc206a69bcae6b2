"""The layers that take part where the deepest are dropped, as in Refusal Steering."""


def layers_left(depth: int, drop_deepest: float | None) -> int:
    """Return how many of `depth` layers are left without the deepest."""
    return depth if drop_deepest is None else max(0, round(depth * (1 - drop_deepest)) - 1)
