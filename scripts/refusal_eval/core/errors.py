"""Errors that users see in plain words."""


class UserError(Exception):
    """A mistake or condition that the user can mend: shown as one message, without a traceback."""
