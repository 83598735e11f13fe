"""The cost of a long session, and the model's knowledge at its end, with different ways to keep the context small.

One session is played in each way: 12 goals in three levels, 300 tool calls on the files of real packages, two abandoned
attempts, five prompts of the user, who also changes the plan in the middle. It is the same to the letter for all:
prompts, texts, calls, results, the seconds between them. Only what is *sent* differs.

Rules, so that nobody is favoured:

- Every request is built by the product's own wire (``daemon.provider.anthropic_wire``), with the same system prompt,
  tools and cache breakpoints, and paid for as ``cache`` says. All token counts are the product's estimate.
- What the ``goal`` tool answers is part of the variant: (a) and (b) know the plan from these answers alone and get
  the whole of it, as todo lists of other agents do; (c) to (e) get the product's own short answer.
- 40 facts are planted: 10 decisions, 10 paths and names, 10 causes of errors, 10 rules of the person. They stand in
  results, in the model's texts, and in prompts. For each 3 of them there are 8 other findings of the same kind of
  sentence, so that a summary cannot know which ones are asked for.
- Summaries are written by one rule: what was found out, newest first and word for word, until the summary is full.
  For a goal that ends that is ``SUMMARY_CHARS`` in ``script``, the same text in all variants; for a full compaction
  it is half of 4 000 tokens, of what can still be read in the request at that moment (see ``runs.Meter.summary``).
- A fact counts as recalled when it stands word for word in the last request, wherever. That is kind to (a) and (b):
  no model reads 200 000 tokens as well as 20 000.
- In (b) no file is read again after a prune or a compaction, though a real model would have to.

``python -m tests.evals.benchmarks.context`` prints the table that stands in ARCHITECTURE.md.
"""
