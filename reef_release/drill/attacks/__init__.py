"""The attacks. Each module here has a tuple `ATTACKS`; adding a file adds its attacks."""
