"""The verb `compare`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class CompareVerb(Verb):
    """Two finished studies side by side."""

    name = "compare"
    does = "compare two finished studies"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.compare.compare_command import command

        return command
