"""Child processes: started, supervised, and stopped with all that they started."""
