"""The memory in ten lines: append, recall, and see why."""

import numpy as np

from far_memory import Convention, Memory, Queries

opencv = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world")
times = np.arange(1000) / 10
poses = np.tile([[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 1.6], [0, 0, 0, 1]], (1000, 1, 1))  # looks along X
poses[:, 0, 3] = 20 * np.sin(times / 8)  # to and fro
embeddings = np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32)  # from any image encoder

memory = Memory(cues={"meta": None, "vision": 64}, chunk=10)
memory.append(time=times, pose=poses, convention=opencv, keys={"vision": embeddings}, payload=[f"{n}.jpg" for n in range(1000)])
asked = Queries(time=100.0, pose=poses[-1:], goal=poses[300:301], convention=opencv, keys={"vision": embeddings[300:301]})
for rule in ["nearest-pose", "longlive-rag"]:
    recall = memory.recall(rule, asked, k=4)
    print(rule, [memory.payload(id) for id in recall.ids[0] if id >= 0])
    print(recall.explain(0))
