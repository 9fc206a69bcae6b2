"""The verb `verify`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class VerifyVerb(Verb):
    """Whether a finished study's numbers come out again."""

    name = "verify"
    does = "recompute a finished study's numbers and compare"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.verify.verify_command import command

        return command
