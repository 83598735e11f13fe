"""``ray_nodes.py FOLDER CPUS``: a real Ray cluster of two nodes, each with a home of its own below FOLDER.

Prints its address; ends with its input, and with it everything that it started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    folder, cpus = Path(sys.argv[1]), float(sys.argv[2])
    # Ray notes its address in `$RAY_TMPDIR/ray`, which must be there.
    (folder / "ray").mkdir(exist_ok=True)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder), "RAY_TMPDIR": str(folder)}

    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": 100 << 20}
    os.environ["GOALWRIGHT_HOME"] = str(folder / "one")
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**small, "include_dashboard": False, "temp_dir": str(folder / "ray")},
    )
    os.environ["GOALWRIGHT_HOME"] = str(folder / "two")
    cluster.add_node(**small)
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
