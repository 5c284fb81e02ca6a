"""FAISS IndexFlatIP, one query at a time: the exact search of the vision cue alone.

    far bench recall --memories 1000000 --cues vision --chunk 1 --peer "python benches/peers/faiss_flat.py"

Needs `pip install faiss-cpu numpy`.
"""

import faiss
import numpy as np

from peer import Data, arguments, serve

options = arguments()
faiss.omp_set_num_threads(options.threads)
data = Data(options.folder)
index = faiss.IndexFlatIP(data.dimension)
index.add(data.keys)
data.keys = None
queries = data.query_keys / np.linalg.norm(data.query_keys, axis=1, keepdims=True)


def recall(query):
    return index.search(queries[query : query + 1], options.slots)[1][0]


serve(recall)
