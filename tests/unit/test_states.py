"""States in the words of the log."""

from refusal_eval.core.states import ANSWER_STATES, told_states


def test_states_are_told_in_their_own_order_and_only_those_that_occur():
    rows = [{"state": state} for state in ("empty", "complete", "complete")]
    assert told_states(rows, ANSWER_STATES) == "2 complete, 1 empty"
    assert told_states([], ANSWER_STATES) == "none"
