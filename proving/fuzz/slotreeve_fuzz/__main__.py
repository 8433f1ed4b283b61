"""``python -m slotreeve_fuzz TARGET``: give a decoder hostile input, guided by what of it is reached (libFuzzer).

The last line on standard output is one of JSON: executions, and how many branches were reached. What the decoder should
not have done is written to ``--found`` and ends the process with another exit code than 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RSS_MEGABYTES = 512
"""More memory than this is a finding."""
OURS = [
    "slotreeve",
    "slotreeve_protocol",
    "slotreeve_machines",
    "slotreeve_events",
    "slotreeve_gateway",
    "slotreeve_servers",
    "jwt",
    "slotreeve_election_fle",
    "slotreeve_face_consul",
    "slotreeve_face_dns",
    "slotreeve_face_eureka",
    "xml",
    "tomllib",
]
"""The packages whose branches guide the search."""
_DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+)")
_PLATEAU = re.compile(r"#(\d+)\s+NEW\s+cov: (\d+)")


def main() -> int:
    """Run one target, or a part of it that this process has started."""
    parser = argparse.ArgumentParser(prog="slotreeve_fuzz", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=-1, help="so many executions at most")
    parser.add_argument("--seconds", type=int, default=60, help="so long at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", type=Path, default=Path("var/fuzz"), help="where findings are written")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        _inside(given.target, given.corpus)
        return 0
    return _outside(given)


def _outside(given: argparse.Namespace) -> int:
    """libFuzzer ends its process by itself, so it gets one of its own."""
    given.found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="slotreeve-fuzz-") as corpus:
        command = [sys.executable, "-m", "slotreeve_fuzz", given.target, "--inside", "--corpus", corpus, "--"]
        flags = {
            "runs": given.runs,
            "max_total_time": given.seconds,
            "seed": given.seed,
            "rss_limit_mb": RSS_MEGABYTES,
            "timeout": 10,
            "artifact_prefix": f"{given.found}/{given.target}-",
        }
        environment = os.environ | {"SLOTREEVE_FUZZ_FLAGS": json.dumps(flags)}
        done = subprocess.run(command[:-1], stderr=subprocess.PIPE, text=True, check=False, env=environment)
    ended = _DONE.search(done.stderr)
    if done.returncode or ended is None:
        sys.stderr.write(done.stderr[-6_000:])
        return done.returncode or 1
    last_new = _PLATEAU.findall(done.stderr)
    report = {
        "target": given.target,
        "executions": int(ended[1]),
        "branches": int(ended[2]),
        "last_new_at": int(last_new[-1][0]) if last_new else 0,
    }
    print(json.dumps(report))
    return 0


def _inside(name: str, corpus: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=OURS):
        from slotreeve_fuzz.targets import LARGEST_BYTES, TARGETS

    target = TARGETS[name]
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)

    def one(data: bytes) -> None:
        with contextlib.suppress(*target.refusals):
            target.run(data)

    flags = json.loads(os.environ["SLOTREEVE_FUZZ_FLAGS"]) | {"max_len": LARGEST_BYTES}
    arguments = [sys.argv[0], str(corpus), *(f"-{flag}={value}" for flag, value in flags.items())]
    atheris.Setup(arguments, one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
