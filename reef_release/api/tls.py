"""Whom this process trusts to vouch for servers, read once: the list takes 20 ms and 1 MB."""

from __future__ import annotations

import ssl
from functools import cache

import httpx

__all__ = ["tls_context"]


@cache
def tls_context() -> ssl.SSLContext:
    """What all clients inside the service check certificates with."""
    return httpx.create_ssl_context()
