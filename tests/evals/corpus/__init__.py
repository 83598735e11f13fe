"""Imperfect edits of real files: made from released versions of real packages, judged byte by byte."""
