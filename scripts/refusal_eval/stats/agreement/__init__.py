"""How well one judge agrees with people: the judge card, its measures and its floor."""
