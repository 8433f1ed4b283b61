"""Light views against a dumb twin that keeps a copy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.datum import content_digest
from slotreeve.model.publisher import Publisher
from slotreeve_bench.light_views import KnownWholes, LightView
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.codec import decode_frame
from slotreeve_servers.session.push.push_frames import PushFrames

SERVICE = "s#@#i#@#g"
STEPS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([b"1", b"2", b""]), max_size=4), max_size=8
)


def record(register_id: str, data: bytes) -> Publisher:
    return Publisher(register_id, SERVICE, 1, 1, "session-1@1", "", (data,))


def frames(start: int, version: int, content: dict[str, bytes], changed: dict[str, bytes], limit: int) -> list[bytes]:
    digest = content_digest([record(*item) for item in content.items()])
    news = [record(key, data) for key, data in changed.items() if data]
    gone = [key for key, data in changed.items() if not data]
    pushed = PushFrames((SERVICE, Scope.DATA_CENTER), (start, version), digest, news, gone, limit)
    found: list[bytes] = []
    while (frame := pushed.frame(len(found))) is not None:
        found.append(frame)
    return found


def taken(view: LightView, frame: bytes, decoded: bool) -> None:
    message = decode_frame(frame)[2]
    assert isinstance(message, Push)
    receipt = view.push(message) if decoded else view.frame(frame)
    assert (receipt.received, receipt.version) == (message.version, view.version)
    assert bool(receipt.parts) is (message.from_version == 0 and message.more)


@given(STEPS, st.integers(1, 400), st.booleans())
def test_a_light_view_has_the_digest_and_the_count_of_a_copy(
    steps: list[dict[str, bytes]], limit: int, decoded: bool
) -> None:
    known = KnownWholes()
    views = [LightView(known), LightView(known)]
    content = dict.fromkeys("abcde", b"0")
    for view in views:
        for frame in frames(0, 1, content, content, limit):
            taken(view, frame, decoded)
    for version, changed in enumerate(steps, start=2):
        content = {key: data for key, data in (content | changed).items() if data}
        for view in views:
            for frame in frames(version - 1, version, content, changed, limit):
                taken(view, frame, decoded)
    for view in views:
        assert view.version == 1 + len(steps)
        assert (view.count, view.digest) == (len(content), content_digest([record(*item) for item in content.items()]))
        assert view.wrong == 0


def test_changes_that_come_between_the_parts_of_the_whole_service_follow_it() -> None:
    view, content = LightView(KnownWholes()), dict.fromkeys("abcde", b"0")
    first, *others = frames(0, 1, content, content, 100)
    later = frames(1, 2, content | {"a": b"9"}, {"a": b"9"}, 1000)
    for frame in (first, *later, *others):
        view.frame(frame)
    assert (view.version, view.count, view.wrong) == (2, 5, 0)


def test_a_light_view_shows_the_whole_service_with_the_changes_that_arrived_before_its_last_part() -> None:
    view, content = LightView(KnownWholes()), dict.fromkeys("abcde", b"0")
    first, *others = frames(0, 1, content, content, 100)
    later = frames(1, 2, content | {"f": b"9"}, {"f": b"9"}, 1000)
    for frame in (first, *later, *others):
        view.frame(frame)
    assert (view.count, view.lowest) == (6, 6)


def test_a_push_that_does_not_lead_to_its_digest_is_counted_and_everything_is_asked_for() -> None:
    view, content = LightView(KnownWholes()), {"a": b"0"}
    view.frame(frames(0, 1, content, content, 1000)[0])
    receipt = view.frame(frames(1, 2, content, {"a": b"9"}, 1000)[0])
    assert (receipt.version, view.wrong) == (0, 1)
    receipt = view.frame(frames(5, 6, content, {"a": b"0"}, 1000)[0])
    assert (receipt.version, view.wrong) == (0, 2)
    view.frame(frames(0, 7, content, content, 1000)[0])
    assert (view.version, view.lowest) == (7, 1)
