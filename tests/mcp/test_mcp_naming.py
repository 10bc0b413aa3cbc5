"""Names of tools: legal, all different, and the same whatever the order of connecting."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.mcp.naming import LEGAL_NAME, Offer, register_names

BUILTIN = frozenset({"Read", "Write", "Edit", "ExecCommand"})


def named(offers: list[Offer], taken: frozenset[str] = BUILTIN) -> dict[tuple[str, str], str]:
    """(server, tool) to registered name."""
    found = register_names(offers, taken)
    return {
        (offer.server, tool): name for offer, names in zip(offers, found, strict=True) for tool, name in names.items()
    }


def test_a_tool_keeps_its_name_if_nobody_else_wants_it() -> None:
    assert named([Offer("s", ["tool_a", "tool-b"])]) == {("s", "tool_a"): "tool_a", ("s", "tool-b"): "tool-b"}


def test_a_name_of_a_built_in_tool_is_prefixed() -> None:
    assert named([Offer("my-tools", ["Read"], dynamic=True)]) == {("my-tools", "Read"): "mcp__my-tools_Read"}


def test_s_f04_collisions_and_illegal_names() -> None:
    tracker = Offer("tracker", ["search", "issue.get", "a/b", "a_b"])
    wiki = Offer("wiki", ["search", "größe", "Read"])
    names = named([tracker, wiki])
    assert names == {
        ("tracker", "search"): "mcp__tracker_search",
        ("tracker", "issue.get"): "issue_get",
        ("tracker", "a/b"): "mcp__tracker_a_b",
        ("tracker", "a_b"): "a_b",
        ("wiki", "search"): "mcp__wiki_search",
        ("wiki", "größe"): "gr__e",
        ("wiki", "Read"): "mcp__wiki_Read",
    }
    assert named([wiki, tracker]) == names


def test_of_dynamic_servers_the_first_keeps_the_name() -> None:
    first, second = Offer("tools", ["t"], dynamic=True), Offer("tools", ["t"], dynamic=True)
    assert register_names([first, second], BUILTIN) == [{"t": "t"}, {"t": "mcp__tools_t"}]
    third = Offer("tools", ["t"], dynamic=True)
    last = register_names([first, second, third], BUILTIN)[2]["t"]
    assert last.startswith("mcp__tools_t_")
    assert register_names([first, second, third, third], BUILTIN)[3]["t"] not in ("t", "mcp__tools_t", last)


def test_the_configuration_comes_before_what_a_host_adds() -> None:
    added, configured = Offer("a", ["t"], dynamic=True), Offer("b", ["t"])
    assert register_names([added, configured], BUILTIN) == [{"t": "mcp__a_t"}, {"t": "t"}]


def test_long_names_are_cut_and_stay_apart() -> None:
    names = named([Offer("s", ["x" * 70 + "1", "x" * 70 + "2"])])
    assert len(set(names.values())) == 2
    assert all(LEGAL_NAME.fullmatch(name) for name in names.values())


tools = st.lists(
    st.text(max_size=5) | st.integers(60, 70).map("x".__mul__) | st.sampled_from(["a", "a_b", "a.b", "a/b", "Read"]),
    max_size=6,
    unique=True,
)
offers = st.lists(st.builds(Offer, st.sampled_from(["s", "t", "s_a", "ü"]), tools, st.booleans()), max_size=5)


@settings(max_examples=200, deadline=None)
@given(offers)
def test_every_name_is_legal_and_the_only_one(every: list[Offer]) -> None:
    names = [name for given_names in register_names(every, BUILTIN) for name in given_names.values()]
    assert len(names) == sum(len(offer.tools) for offer in every)
    assert all(LEGAL_NAME.fullmatch(name) for name in names)
    assert len({*names, *BUILTIN}) == len(names) + len(BUILTIN)


@settings(max_examples=100, deadline=None)
@given(offers, st.randoms(use_true_random=False))
def test_configured_servers_may_come_in_any_order(every: list[Offer], chance: random.Random) -> None:
    configured = list({offer.server: Offer(offer.server, offer.tools) for offer in every}.values())
    shuffled = [Offer(offer.server, chance.sample(list(offer.tools), len(offer.tools))) for offer in configured]
    chance.shuffle(shuffled)
    assert named(shuffled) == named(configured)
