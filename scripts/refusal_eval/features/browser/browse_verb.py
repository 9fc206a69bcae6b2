"""The verb `browse`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class BrowseVerb(Verb):
    """The page to browse a study's answers."""

    name = "browse"
    does = "write one page with all answers of a study, to be opened from disk"

    @staticmethod
    def command() -> Command:
        from refusal_eval.features.browser.browse_command import browse

        return browse
