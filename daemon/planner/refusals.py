"""Why a call is not run, told to the model as its result. Apart from the rest: the loop imports it at its start."""

from __future__ import annotations

NOT_RUN = "Not run: a plan was asked for. Answer with it as JSON in your text; the work comes after."

CIRCLE = "Not run: the same calls come again and again. A new plan is made first."
