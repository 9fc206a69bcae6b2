"""What a refusal costs where people choose between two answers: win rates, penalties and moderation bias."""
