"""Library behind the refusal-eval workflow: typed, tested, and free of work at import time."""
