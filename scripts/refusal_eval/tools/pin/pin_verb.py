"""The verb `pin`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class PinVerb(Verb):
    """The lock file of a study."""

    name = "pin"
    does = "write the commit of every repository of a study into a lock file"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.pin.pin_command import command

        return command
