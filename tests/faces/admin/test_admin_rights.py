"""Who may read and order through the face ``admin``, and which requests of browsers are refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.rights import ANY, Right, Rights

from tests.faces.admin.admin_scene import AdminScene, access_with, on_admin


@given(st.text("*ab.#@", min_size=1, max_size=6))
def test_only_a_right_for_everything_is_a_right_for_all_services(pattern: str) -> None:
    holds = Rights([f"operate:{pattern}"]).hold(Right.OPERATE, ANY)
    assert holds == (set(pattern) == {"*"})


def test_a_token_that_operates_one_service_reads_nothing_and_one_for_all_does() -> None:
    for rights, status in (
        (("operate:*",), 200),
        (("operate:com.example.*",), 403),
        (("operate:com.example.Shop",), 403),
        (("read:*", "register:*"), 403),
    ):
        access, token = access_with(*rights)

        async def story(scene: AdminScene, token: dict[str, str] = token, status: int = status) -> None:
            answer = await scene.gateway.ask("GET", "/v1/admin/status", headers=token)
            assert answer.status == status, answer
            answer = await scene.gateway.ask("GET", "/v1/admin/services/com.example.Shop/subscribers", headers=token)
            assert answer.status == status, answer

        on_admin(story, access)


def test_without_a_token_or_with_a_wrong_one_nothing_is_told() -> None:
    access, token = access_with("operate:*")

    async def story(scene: AdminScene) -> None:
        wrong = {"Authorization": token["Authorization"][:-1] + "x"}
        for headers in ({}, wrong, {"Authorization": "Bearer x"}, {"Authorization": "Digest x"}):
            for path in ("status", "openapi.json", "orders"):
                answer = await scene.gateway.ask("GET", f"/v1/admin/{path}", headers=headers)
                assert answer.status == 401, (headers, path, answer)

    on_admin(story, access)


def test_a_page_whose_name_stands_for_this_machine_reads_nothing_without_a_token() -> None:
    async def story(scene: AdminScene) -> None:
        for host, status in (
            ("127.0.0.1:7740", 200),
            ("[::1]:7740", 200),
            ("localhost", 200),
            ("LOCALHOST:7740", 200),
            ("gw.example.com:7740", 200),
            ("GW.example.com", 200),
            ("evil.example.net:7740", 403),
            ("127.0.0.1.evil.example.net", 403),
            ("localhost.evil.example.net", 403),
            ("", 403),
            ("[::1", 200),
            ("[evil", 403),
        ):
            # The page may send whatever it likes as a token.
            headers = {"Host": host, "Authorization": "Bearer slotreeve.a.b"}
            answer = await scene.gateway.ask("GET", "/v1/admin/status", headers=headers)
            assert answer.status == status, (host, answer)

    on_admin(story, options={"hosts": ["gw.example.com"]})


def test_a_caller_with_a_token_may_come_by_any_name() -> None:
    access, token = access_with("operate:*")

    async def story(scene: AdminScene) -> None:
        headers = {"Host": "gw.example.com", **token}
        assert (await scene.gateway.ask("GET", "/v1/admin/status", headers=headers)).status == 200

    on_admin(story, access)
