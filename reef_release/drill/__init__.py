"""The drill: attacks on a running service, and whether each was stopped by what must stop it.

An attack is a value in a module of `attacks`, found there by itself; `runner` runs them and
looks before and after each at what is served (`watch`). Nothing here takes an attack's word: an
event that it names is looked up in the log.
"""
