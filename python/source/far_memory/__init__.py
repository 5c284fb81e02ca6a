"""An episodic memory for world models that learns what to recall.

>>> import numpy as np
>>> memory = Memory(cues={"meta": None, "vision": 3})
>>> here = Convention.native()
>>> walk = np.tile(np.eye(4), (100, 1, 1))
>>> walk[:, 0, 3] = np.arange(100)
>>> memory.append(time=np.arange(100), pose=walk, convention=here, keys={"vision": np.random.randn(100, 3)})
range(0, 100)
>>> asked = Queries(time=100.0, pose=walk[-1:], goal=walk[40:41], convention=here)
>>> memory.recall("nearest-pose", asked, k=3).ids.tolist()
[[40, 41, 39]]
"""

from ._native import VERSION as __version__
from .convention import Convention
from .errors import (
    ClosedError,
    DatasetError,
    FarError,
    InputError,
    PolicyError,
    ProcessError,
    RetrieverError,
    StoreError,
)
from .evaluation import evaluate, report
from .memory import Key, Memory
from .policy import Policy, rules
from .pose_check import PoseReport, check_poses
from .queries import Queries
from .recall import Recall
from .snapshot import Snapshot

__all__ = [
    "ClosedError",
    "Convention",
    "DatasetError",
    "FarError",
    "InputError",
    "Key",
    "Memory",
    "Policy",
    "PolicyError",
    "PoseReport",
    "ProcessError",
    "Queries",
    "Recall",
    "RetrieverError",
    "Snapshot",
    "StoreError",
    "__version__",
    "check_poses",
    "evaluate",
    "report",
    "rules",
]
