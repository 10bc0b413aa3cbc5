"""Anthropic's models on Google's Vertex AI.

Needs ``pip install 'agentwire[vertex]'`` and Google credentials: the file that ``GOOGLE_APPLICATION_CREDENTIALS``
names, or what ``gcloud auth application-default login`` left, or the machine's service account; or else a token that is
ready to be used in ``VERTEX_ACCESS_TOKEN``. The project is
``VERTEX_PROJECT_ID``, else the credentials' own; the region is ``VERTEX_REGION``. Options:
:class:`agentwire_vertex.quirks.VertexQuirks`.
"""

from __future__ import annotations

from agentwire.provider import Provider, ProviderPlugin, ProviderSettings

DEFAULT_MODEL = "claude-sonnet-4@20250514"


def _create(settings: ProviderSettings) -> Provider:
    from agentwire_vertex.service import Vertex

    return Vertex(settings)


provider = ProviderPlugin(
    name="vertex",
    create=_create,
    summary="Anthropic's models on Google Vertex AI",
    default_model=DEFAULT_MODEL,
    secrets=("GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_ACCESS_TOKEN"),
)
