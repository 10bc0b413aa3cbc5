"""Keys in a reply's body: nothing of them is kept, and what reads the body reports the same."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.provider import ProviderSettings, errors
from agentwire.provider.address import secrets_in
from agentwire.provider.http import HttpClient
from agentwire.provider.masking import masked

KEY = "k/e+y=\"of'ours\\and-more"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(max_size=6) | st.just(KEY), max_size=6),
    st.lists(st.integers(0, 10_000), max_size=5),
    st.sampled_from([str, lambda text: json.dumps(text)[1:-1], lambda text: quote(text, safe="")]),
)
def test_a_key_is_gone_however_it_is_written_and_cut(texts, cuts, write):
    body = "".join(map(write, texts)).encode("utf-8", "surrogatepass")
    borders = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(borders)]
    found = masked(chunks, [KEY])
    assert len(found) == len(chunks)
    whole = b"".join(found)
    assert write(KEY).encode() not in whole
    assert KEY.encode() not in whole
    if not any(write(KEY) in write(text) for text in texts):
        assert found == chunks
    if KEY not in "".join(texts):  # nothing else is touched, nor moved across a border
        assert found == chunks


@pytest.mark.parametrize("said", [f"No such key: {KEY}!", f"Bearer {KEY}", "use sk-abcdefgh123 or key-0123456789", "x"])
def test_messages_made_of_it_are_the_same(said):
    body = json.dumps({"error": {"message": said}}).replace("/", "\\/").encode()
    refused = [
        errors.refused(401, {}, kept, service="s", secrets=secrets).message
        for kept, secrets in ((body, [KEY]), (b"".join(masked([body[:30], body[30:]], [KEY], keys=True)), []))
    ]
    assert refused[0] == refused[1]


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("Bearer abcd-efgh", "abcd-efgh"),
        ("Basic dXM6cGFzcw==", "dXM6cGFzcw=="),
        ("sid=0123456789; theme=dark", "0123456789"),
        ("a-plain-key", "a-plain-key"),
    ],
)  # fmt: skip
def test_what_a_service_may_quote_of_a_header_is_a_secret_too(secret, said):
    secrets = HttpClient("https://host/v1", ProviderSettings(), secrets=[secret]).secrets
    assert secret in secrets
    assert masked([f"no {said}, dark Bearer".encode()], secrets) == [b"no ***, dark Bearer"]
    assert errors.redact(f"no {said}, dark Bearer", secrets) == "no ***, dark Bearer"


def test_a_longer_key_goes_before_one_that_it_holds():
    assert errors.redact("a secret-and-more", ["secret", "secret-and-more"]) == "a ***"
    assert masked([b"a secret-and-more"], ["secret", "secret-and-more"]) == [b"a ***"]
    assert masked([b"tiny key abc"], ["abc"]) == [b"tiny key abc"], "a placeholder is no key"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://host/v1", set()),
        ("https://host/v1?api-version=2024-02-01", set()),
        ("https://host/v1?api-version=1&key=a%2Fb&X=1", {"a%2Fb", "a/b"}),
        ("https://a-token@host/", {"a-token", "YS10b2tlbg=="}),
        ("https://a-token:@host/", {"a-token:", "a-token", "YS10b2tlbjo="}),
        ("https://us:pass%21@host/", {"us:pass%21", "us:pass!", "pass%21", "pass!", "dXM6cGFzcyE="}),
        ("https://host/?sig=1+2", {"1+2", "1 2"}),
    ],
)  # fmt: skip
def test_what_no_message_may_show_of_an_address(url, found):
    assert set(secrets_in(url)) == found
