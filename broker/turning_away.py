"""Answers to peers that cannot be served, or say what is not theirs to say."""

from grn_zmq import wire

from .effects import Effect, Note, Peer, Send


def wrong_version(peer: Peer, theirs: int) -> list[Effect]:
    text = f"this broker speaks protocol {wire.PROTOCOL}, you speak {theirs}"
    return [Send(peer, wire.Refused("version", text, ()))]


def not_for_you(peer: Peer, message: wire.Message, who: str) -> list[Effect]:
    text = f"{message.kind} is not a message of {who}"
    return [Note(text, level="warning"), Send(peer, wire.Refused("bad-request", text, ()))]
