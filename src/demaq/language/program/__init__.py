"""A program: as written (draft), as resolved (program), and how two of them differ."""
