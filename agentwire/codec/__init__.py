"""Codecs: one wire protocol each, sans-IO. The contract is :mod:`agentwire.codec.contract`."""
