"""The verb `new`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class NewVerb(Verb):
    """A study of one's own."""

    name = "new"
    does = "write a study of your own model that runs at once"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.new.new_command import command

        return command
