"""Whether a page shows what the judge says of a run: with "Vote first" it waits for the person's vote, or for their word."""

from collections.abc import Mapping

COOKIE = "vote_first"  # set by the page's own switch (`ballot.js`): the server knows it before the first word is sent
ON = "on"


class Disclosure:
    """What one visitor has been shown of one run. What has been shown once is never hidden again."""

    def __init__(self) -> None:
        self.hidden = False
        self.voted = False  # the visitor has voted on the run: its vote is theirs

    def begin(self, hidden: bool, voted: bool = False) -> None:
        """The run is about to be shown. `voted`: the visitor has voted on it before, so that there is nothing to hide."""
        self.hidden, self.voted = hidden and not voted, voted

    def show(self) -> None:
        """Show everything from now on."""
        self.hidden = False

    def vote(self) -> None:
        """The visitor has voted."""
        self.hidden, self.voted = False, True


def votes_first(cookies: Mapping[str, str]) -> bool:
    """Whether a visitor with these cookies has switched on "Vote first"."""
    return cookies.get(COOKIE) == ON
