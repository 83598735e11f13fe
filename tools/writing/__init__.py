"""Below ``tools.change``: proposals that users accept in part, all files or none, the journal, buffers of editors."""
