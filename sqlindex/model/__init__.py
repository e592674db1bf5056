"""Values without behaviour, shared by the write side and the read side."""
