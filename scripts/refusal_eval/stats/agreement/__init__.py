"""How well one judge agrees with people: the parts of `agreement.judge_card`, its table, its figure and its floor."""
