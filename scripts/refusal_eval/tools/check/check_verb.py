"""The verb `check`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class CheckVerb(Verb):
    """Checks of this machine, or of one model's answers, before a run."""

    name = "check"
    does = "check this machine before a run, or one model's answers"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.check.check_command import command

        return command
