"""Recall that learns, for any PyTorch world model: the retriever as a module, and its loss.

The user's loop stays the user's. ``FutureAware`` recalls for a batch, asks how well the model predicts with single
memories, and gives the loss that draws the retriever toward those that helped.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("far_memory.torch needs PyTorch (pip install torch)", name="torch") from error

from .batch import RetrieverBatch
from .draw import Draw
from .future_aware import FutureAware, Recalled
from .query_vit import QueryViT
from .retriever import Retriever, Scores

__all__ = ["Draw", "FutureAware", "QueryViT", "Recalled", "Retriever", "RetrieverBatch", "Scores"]
