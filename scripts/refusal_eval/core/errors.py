"""Errors that are told to the user in plain words."""


class UserError(Exception):
    """A mistake or condition that the user can mend: shown as one message, without a traceback."""
