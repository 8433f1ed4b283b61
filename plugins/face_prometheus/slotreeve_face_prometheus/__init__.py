"""The face for Prometheus: targets by HTTP service discovery (``http_sd_config``)."""

from __future__ import annotations

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["slotreeve_faces"]


def _build(options: Options, context: Context) -> Face:
    from slotreeve_face_prometheus.face import PrometheusFace

    return PrometheusFace(context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("prometheus", _build, "targets for Prometheus by HTTP service discovery")]
