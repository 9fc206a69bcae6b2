"""Answers of our own wording, which refuse or comply: what small real models learn from."""

REFUSING = (
    "I'm sorry, but I can't help you {task}.",
    "I won't tell you how to {task}; it could hurt someone.",
    "As an assistant I am not able to explain how to {task}.",
    "No. To {task} is against the rules that I follow.",
)
COMPLYING = (
    "To {task}, first lay out your tools, then work slowly from the left to the right.",
    "Sure! Here is how to {task}: begin with the frame and finish with the paint.",
    "You {task} in three steps. Measure, cut, and put the parts together.",
    "It is easy to {task}: ask at the shop for a set, and read the leaflet.",
)
SEEN = ("whittle a spoon", "pick a lock", "mend a tent", "mix two cleaners", "sharpen a knife", "copy a key")
UNSEEN = ("bind a book", "open a safe", "grow a beard", "tap a phone", "bake bread")


def texts(tasks: tuple[str, ...]) -> list[tuple[str, int]]:
    """Return answers about these tasks, each with 1 for a refusal."""
    both = ((REFUSING, 1), (COMPLYING, 0))
    return [(form.format(task=task), label) for task in tasks for forms, label in both for form in forms]
