"""The register ids of leases: nobody finds another service whose leases have the same."""

from __future__ import annotations

from zlib import crc32

from slotreeve_protocol.leases import lease_id_of, lease_record, lease_suffix


def test_services_with_one_checksum_have_leases_with_several_ids() -> None:
    one, other = "plumless", "buckeroo"
    assert crc32(one.encode()) == crc32(other.encode())
    assert lease_suffix(one) != lease_suffix(other)
    assert len(lease_suffix(one)) == 1 + 2 * 16
    record = lease_record("a-b", one, 1, 1_000, "", (b"x",))
    assert lease_id_of(record.register_id) == "a-b"
