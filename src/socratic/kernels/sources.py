"""The sources of the kernels for processors, and the libraries that are built of them.

Only the standard library is needed here: ``hatch_build.py`` reads this file before anything is installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FLAGS = (
    "-std=c++17 -O3 -shared -fPIC -pthread -fvisibility=hidden -fno-exceptions -fno-rtti -fno-math-errno "
    "-ffp-contract=fast"
)
TARGETS = {
    "avx512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512",
    "avx2": "-mavx2 -mfma",
    "arm64": "",
}
"""What a compiler has to know of each kind of processor; those of x86-64 have the names that torch gives them."""
_HERE = Path(__file__).parent
BUILT = _HERE / "built"


def sources() -> list[Path]:
    """The files to compile."""
    return sorted((_HERE / "cpp").glob("*.cpp"))


def library_path(target: str) -> Path:
    """The library for a kind of processor, by a name that changes with its sources: none is taken for another's."""
    digest = hashlib.sha256(FLAGS.encode())
    for path in [*sources(), *sorted((_HERE / "cpp").glob("*.h"))]:
        digest.update(path.read_bytes())
    return BUILT / f"kernels-{target}-{digest.hexdigest()[:12]}.so"
