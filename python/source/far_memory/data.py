"""Datasets in the project's format: reading, training examples for a DataLoader, and a writer for one's own trajectories."""

from __future__ import annotations

import contextlib
import json
import os
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .arrays import numpy_of, pose_rows, row
from .convention import Convention, check_convention
from .errors import ClosedError, DatasetError, InputError
from .memory import Memory
from .trajectory import check_trajectory


class Episode:
    """One walk: frames to remember (explore), then frames to predict (return)."""

    __slots__ = ("_native", "id")

    def __init__(self, native: _native.Episode, id: int) -> None:
        self._native = native
        self.id = id

    def __len__(self) -> int:
        return len(self._native)

    @property
    def boundary(self) -> int:
        """Index of the first return frame."""
        return self._native.boundary

    def times(self) -> NDArray[np.float64]:
        """Seconds since the episode began, [frames]."""
        return self._native.times()

    def poses(self) -> NDArray[np.float32]:
        """Positions and quaternions in ``Convention.native()``, [frames, 7]; DatasetError where the dataset has none."""
        return self._native.poses()

    def frames(self, indices: Any) -> NDArray[np.uint8]:
        """Pictures, [indices, height, width, 3]."""
        return self._native.frames(_indices(indices))

    def events(self, frame: int) -> list[int]:
        """What happened since the previous frame, as numbers into the dataset's labels."""
        return self._native.events(frame)

    def visible_faces(self, frame: int) -> list[int]:
        """Ids of the surfaces in view, where the dataset has them."""
        return self._native.visible_faces(frame)

    def remember(self, memory: Memory, indices: Any, keys: Any = None) -> range:
        """Appends frames of the episode to a memory, each with its index as payload; returns their ids."""
        rows = _indices(indices)
        if len(rows) and not (0 <= rows.min() and rows.max() < len(self)):
            raise InputError(f"episode {self.id} has no frame {rows.max()}", f"it has frames 0 to {len(self) - 1}")
        poses = self.poses()[rows]
        return memory.append(
            time=self.times()[rows],
            pose=(poses[:, :3], poses[:, 3:]),
            convention=Convention.native(),
            keys=keys,
            payload=[str(index) for index in rows.tolist()],
        )


class Dataset:
    """A dataset in a folder. It is cheap to open, pickles as its path, and can be shared by threads."""

    __slots__ = ("_native", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._native = _native.Dataset(self.path)

    def __len__(self) -> int:
        return len(self._native)

    @property
    def has_poses(self) -> bool:
        """Whether every frame has the camera's pose."""
        return bool(self.description.get("poses", True))

    @property
    def description(self) -> dict[str, Any]:
        """What the whole dataset has in common: the content of dataset.json."""
        description: dict[str, Any] = json.loads(self._native.description())
        return description

    def ids(self) -> list[int]:
        """Ids of all episodes."""
        return self._native.ids()

    def select(self, split: str, rule: str | None = None) -> list[int]:
        """Ids of the episodes that train, validate or test, under the first rule of the dataset or one that is named."""
        return self._native.select(split, rule)

    def lengths(self, id: int) -> tuple[int, int]:
        """Number of frames of an episode and index of its first return frame, without opening it."""
        frames, boundary, _, _ = self._native.summary(id)
        return frames, boundary

    def episode(self, id: int) -> Episode:
        """Opens an episode."""
        return Episode(self._native.episode(id), id)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.path,)


class TrainingExamples:
    """A map-style dataset for ``torch.utils.data.DataLoader``: the draws of Rust's sampler for a seed.

    Item n is observation ``n % observations`` of step ``n // observations``: a current frame, memories from before it and G
    goals. Examples of a dataset without poses have no ``pose`` and ``goal_poses``. ``settings`` are those of the sampler (``seed``, ``split``, ``batch``, ``goals_per_observation``, ``horizon``,
    ``pool``, ``anchor``); what is left out has the values of the corpus.
    """

    def __init__(self, path: str | os.PathLike[str], *, steps: int, **settings: Any) -> None:
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps are {steps!r}", "give how many steps the stream has")
        try:
            text = json.dumps(settings)
        except (TypeError, ValueError) as error:
            raise InputError(f"these settings are not plain data: {error}", "give numbers and strings") from error
        self.steps = steps
        self.dataset = Dataset(path)
        self._has_poses = self.dataset.has_poses
        self._given = settings
        self._native = _native.Examples(self.dataset.path, text)
        self.settings: dict[str, Any] = json.loads(self._native.settings())
        self.observations: int = self.settings["batch"] // self.settings["goals_per_observation"]

    def __len__(self) -> int:
        return self.steps * self.observations

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no example {number}; there are {len(self)}")
        step, place = divmod(number, self.observations)
        id, current, pool, goals, anchor, anchor_frame = self._native.observation(step, place)
        episode = self.dataset.episode(id)
        times = episode.times()
        padded = np.full(self.settings["pool"], -1, np.int64)
        padded[: len(pool)] = pool
        example = {
            "episode": id,
            "current": current,
            "frame": episode.frames([current])[0],
            "time": times[current],
            "pool": padded,
            "goals": np.asarray(goals, np.int64),
            "strides": (times[goals] - times[current]).astype(np.float32),
            "futures": episode.frames(goals),
            "anchor": anchor,
            "anchor_frame": -1 if anchor_frame is None else anchor_frame,
        }
        if self._has_poses:
            poses = episode.poses()
            example |= {"pose": poses[current], "goal_poses": poses[goals]}
        return example

    def __reduce__(self) -> tuple[Any, ...]:
        return _examples, (self.dataset.path, self.steps, self._given)


def _examples(path: str, steps: int, settings: dict[str, Any]) -> TrainingExamples:
    return TrainingExamples(path, steps=steps, **settings)


class Writer:
    """Writes trajectories of one's own as a dataset. One that was interrupted goes on in the same folder.

    ``resolution`` is [width, height] in pixels, ``field_of_view`` the full horizontal and vertical angle in degrees.
    One writer at a time has a folder, until ``finish`` or ``close``. In a ``with`` block both happen by themselves: it finishes
    at the end of the block, and after an exception closes, keeping the episodes that are complete.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        corpus: str,
        fps: float,
        resolution: tuple[int, int],
        field_of_view: tuple[float, float],
    ) -> None:
        try:
            self._native = _native.DatasetWriter(
                os.fspath(path), corpus, float(fps), list(map(int, resolution)), list(map(float, field_of_view))
            )
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DatasetError):
                raise
            raise InputError(f"this is no description: {error}", "give corpus, fps, [width, height] and two angles") from error

    def episode(
        self,
        id: int,
        *,
        scene: str,
        split: str,
        time: Any,
        pose: Any,
        convention: Convention,
        frames: Any,
        boundary: int,
        seed: int = 0,
        check: bool = True,
    ) -> None:
        """Writes one episode: times and poses of n frames [n, height, width, 3] of bytes; ``boundary`` is the first return frame.

        A trajectory that cannot be meant as the convention says, because its cameras would lie on their heads, is refused;
        ``check=False`` takes it all the same.
        """
        pictures = numpy_of(frames, "frames")
        if pictures.dtype != np.uint8 or pictures.ndim != 4:
            raise InputError(f"frames are {pictures.dtype} of shape {pictures.shape}", "give bytes [n, height, width, 3]")
        poses = pose_rows(pose, "pose")
        said = check_convention(convention, pose)
        if check:
            check_trajectory(poses, said)
        whole = all(isinstance(value, (int, np.integer)) and 0 <= value < 2**32 for value in (id, boundary, seed))
        if not whole or not isinstance(scene, str) or not isinstance(split, str):
            raise InputError(
                f"id {id!r}, boundary {boundary!r}, seed {seed!r}, scene {scene!r} and split {split!r} say no episode",
                "give whole numbers from 0, a name and a part",
            )
        self._native.episode(
            id, scene, split, seed, row(time, "time"), poses, said, np.ascontiguousarray(pictures), boundary
        )

    def finish(self) -> int:
        """Writes the index and lets go of the folder; returns how many episodes there are."""
        count = self._native.finish()
        self._native.close()
        return count

    def close(self) -> None:
        """Lets go of the folder at once, without an index; episodes that are complete stay. Closing again does nothing."""
        self._native.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                with contextlib.suppress(ClosedError):  # it was finished inside
                    self._native.finish()
        finally:
            self._native.close()


def _indices(indices: Any) -> NDArray[np.int64]:
    rows = numpy_of(indices, "indices").reshape(-1)
    if rows.size and rows.dtype.kind not in "iu":
        raise InputError(f"indices have the type {rows.dtype}", "give whole numbers")
    return np.ascontiguousarray(rows, np.int64)
