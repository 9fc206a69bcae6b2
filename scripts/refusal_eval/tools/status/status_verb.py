"""The verb `status`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class StatusVerb(Verb):
    """How far a study is."""

    name = "status"
    does = "show which cells of a study are done, missing or failed, and why"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.status.status_command import command

        return command
