"""A program: the draft that checks work on, the program they accept, and the differences between two programs."""
