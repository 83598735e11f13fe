"""What is known of the usual commands, kind by kind. Pure tables and small readers of arguments."""
