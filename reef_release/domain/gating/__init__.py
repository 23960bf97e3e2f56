"""The rules of a gate as data, the machine that decides by them, and the budget of errors."""
