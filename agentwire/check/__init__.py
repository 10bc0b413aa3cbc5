"""Conformance: programs of either role, held to what their wire asks. See :mod:`agentwire.codec.kit`."""
