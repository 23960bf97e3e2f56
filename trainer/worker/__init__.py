"""The trainer: claims batches, trains them in a line, submits what the development tasks favour.

It decides nothing about serving. What it does is in the log, and what it needs for going on after
a kill at any point is in a directory of its own.
"""
