"""Reef Release: an event-sourced, gated release service for model weights."""

__version__ = "0.1.0"
