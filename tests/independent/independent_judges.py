KNOWN: dict = {}
