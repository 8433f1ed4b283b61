"""What every core sends to many peers."""

from __future__ import annotations

from slotreeve.model.nodes import Role
from slotreeve_protocol.client_messages import Sessions
from slotreeve_servers.node.outbox import Peer, send_to_all

from tests.servers.recording_outbox import RecordingOutbox, a_peer


class EncodedOutbox(RecordingOutbox):
    """Keeps the frames as they were sent."""

    frames: list[bytes]

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        self.frames.append(frame)
        return super().send_encoded(peer, frame, what)


def test_a_message_to_many_peers_is_encoded_once() -> None:
    outbox, peers = EncodedOutbox(), [a_peer(f"c{n}", Role.CLIENT) for n in range(3)]
    outbox.frames = []
    message = Sessions(["127.0.0.1:7730"])
    send_to_all(outbox, peers, message)
    assert [(effect.peer, effect.what) for effect in outbox.take("sent")] == [(peer, message) for peer in peers]
    assert len(outbox.frames) == len(peers)
    assert all(frame is outbox.frames[0] for frame in outbox.frames)
