"""All requirements of a wire for a role."""

from __future__ import annotations

from agentwire.check.agent_matrix import agent_matrix, rules
from agentwire.check.findings import Rules
from agentwire.check.host_matrix import for_staying, host_matrix
from agentwire.codec.contract import Codec
from agentwire.codec.kit import Play, Requirement, Role


class NoKit(Exception):
    """The codec does not say what its wire asks of a role, or asks no such thing; the message says which."""


def catalogue(codec: Codec, role: Role, only: tuple[str, ...] = ()) -> list[Requirement]:
    """What programs of ``role`` are held to; ``only`` picks some by id. Raises :class:`NoKit`."""
    kit = codec.requirements() if codec.requirements is not None else None
    basics = kit and (kit.agent if role == "agent" else kit.host)
    if kit is None or basics is None:
        raise NoKit(f"the codec {codec.name} has no requirements for the role {role}")
    found = [requirement for requirement in kit.requirements if requirement.role == role]
    if role == "agent" and kit.agent is not None:
        found = [*agent_matrix(kit.agent, codec.checker), *found]
    if role == "host" and kit.host is not None:
        found = [*host_matrix(kit.host, codec.checker), *found]
    unknown = set(only) - {requirement.id for requirement in found}
    if unknown:
        raise NoKit(f"the codec {codec.name} has no requirement {', '.join(sorted(unknown))} for the role {role}")
    return [requirement for requirement in found if not only or requirement.id in only]


def rules_of(codec: Codec, role: Role) -> Rules | None:
    """What the wire's checker finds in a run, if it has one."""
    return None if codec.checker is None else rules("must", codec.checker, role, whole=False)


def host_play(codec: Codec, requirements: list[Requirement], name: str, *, stays: bool) -> Play:
    """The play of that name. Raises :class:`NoKit`."""
    kit = codec.requirements() if codec.requirements is not None else None
    for requirement in requirements:
        if requirement.play.name == name:
            greet = () if kit is None or kit.host is None else kit.host.greet
            return for_staying(requirement.play, greet) if stays else requirement.play
    raise NoKit(f"the codec {codec.name} has no play {name}")
