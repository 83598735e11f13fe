"""The rungs of ``tools.match``: in what an edit may differ, how it is adapted, when to refuse, what to say then."""
