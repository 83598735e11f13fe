"""Under ``tools.change``: what a person left of a proposal, all files or none, the journal, buffers of editors."""
