"""What hosted engines will cost a study, and what they have: parts of `refusal-eval plan` and `refusal-eval status`."""

from decimal import Decimal

import pandas as pd

from refusal_eval.features.hosted.budget_keys import BudgetKeys
from refusal_eval.features.hosted.hosted_entry import Hosted
from refusal_eval.features.hosted.journal import Spending, journal_path, read_spending
from refusal_eval.features.hosted.price import TOKENS_PER_MESSAGE
from refusal_eval.program.page_part import PagePart
from refusal_eval.study.study import Study

BYTES_PER_TOKEN = 4  # of English, by which the tokens of prompts are estimated


def money_to_come(study: Study, costs: pd.DataFrame) -> PagePart | None:
    """Return what the requests that the store lacks will cost at least, as expected and at most; None where no
    server is paid.

    Args:
        costs: `requests`, `tokens_in`, `tokens_out` and `most_tokens_out` by engine.
    """
    rows, sums, currency = list[dict[str, str]](), [Decimal(0)] * 3, "USD"
    for name, engine in study.engines.items():
        if not isinstance(engine, Hosted) or engine.price is None:
            continue
        own, price, currency = costs.loc[name].to_dict(), engine.price, engine.price.currency
        requests, read = int(own["requests"]), int(own["tokens_in"])
        longest = read * BYTES_PER_TOKEN + requests * TOKENS_PER_MESSAGE
        guesses = [(read, requests), (read, int(own["tokens_out"])), (longest, int(own["most_tokens_out"]))]
        money = [price.cost({"input": tokens, "cached": 0, "output": out}) for tokens, out in guesses]
        sums = [one + other for one, other in zip(sums, money, strict=True)]
        rows.append({"engine": name, "requests": f"{requests:,}", **_three(money, currency)})
    paid = {name: one for name, one in study.engines.items() if isinstance(one, Hosted) and not one.is_here}
    unpriced = [name for name, engine in paid.items() if engine.price is None]
    not_counted = f"Without a `price`, and not counted: {', '.join(unpriced)}."
    if not rows:
        return PagePart("MONEY", sentences=[not_counted]) if unpriced else None
    if len(rows) > 1:
        rows.append({"engine": "all", "requests": "", **_three(sums, currency)})
    said = ["At least: answers of one token; at most: all that they may have, and every byte of a prompt a token."]
    budget, values = BudgetKeys.of(study.settings).budget, dict(zip(GUESSES, map(float, sums), strict=True))
    if budget is not None:
        left = Decimal(str(budget)) - spending_of(study).total
        said.append(f"The budget is {budget:,.2f} {currency}, of which {left:,.2f} is left. ")
        if left < sums[1]:
            said.append("That is less than expected: the last loads will end before they are done.")
        elif left < sums[2]:
            said.append("That may not do if answers are long: no request is sent that could cost more than is left.")
    if unpriced:
        said.append(not_counted)
    return PagePart("MONEY", rows, said, values | {"currency": currency, "budget": budget})


GUESSES = ("least", "expected", "most")


def money_so_far(study: Study, _: pd.DataFrame | None = None) -> PagePart | None:
    """Return what the study has spent, what is reserved and what is left; None where it has spent nothing."""
    found, budget = spending_of(study), BudgetKeys.of(study.settings).budget
    if found.currency is None:
        return None
    spent, reserved = (sum(part.values(), Decimal(0)) for part in (found.spent, found.reserved))
    text = f"{spent:,.4f} {found.currency} spent, {reserved:,.4f} reserved for replies without a bill"
    values = {"spent": float(spent), "reserved": float(reserved), "currency": found.currency, "budget": budget}
    if budget is not None:
        left = Decimal(str(budget)) - found.total
        text, values["left"] = f"{text}, {left:,.4f} left of {budget:,.2f}", float(left)
    return PagePart(f"Money: {text}", values=values)


def spending_of(study: Study) -> Spending:
    return read_spending(journal_path(study.paths.store, study.name))


def _three(money: list[Decimal], currency: str) -> dict[str, str]:
    titles = ("at least", "expected", "at most")
    return {title: f"{amount:,.2f} {currency}" for title, amount in zip(titles, money, strict=True)}
