"""Shell command lines as permission rules see them: parsed with the real grammar, judged command by command."""
