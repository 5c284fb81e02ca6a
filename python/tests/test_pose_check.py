"""The check of poses names the mistakes that people make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from far_memory import Convention, InputError, check_poses
from far_memory.data import Dataset
from far_memory.worlds import record


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float]]:
    folder: Path = tmp_path_factory.mktemp("check") / "village"
    record("village", folder, episodes=1, seed=3)
    dataset = Dataset(folder)
    view = dataset.description["field_of_view"]
    episode = dataset.episode(dataset.ids()[0])
    frames = episode.frames(np.arange(len(episode)))
    return episode.poses(), episode.times(), frames, (view["horizontal_degrees"], view["vertical_degrees"])


def test_right_poses_pass_and_wrong_ones_are_named(walk) -> None:  # type: ignore[no-untyped-def]
    poses, times, frames, view = walk
    pair = (poses[:, :3], poses[:, 3:])
    native = Convention.native()
    right = check_poses(pair, convention=native, time=times, frames=frames, field_of_view=view)
    assert not right.contradicted and right.better is None
    assert right.upright > 0.9 and right.frames == len(times)
    assert right.warped_db is not None and right.unwarped_db is not None and right.warped_db > right.unwarped_db
    for change in ({"transform": "world-to-camera"}, {"axes": "RUB"}, {"quaternion": "xyzw"}):
        wrong = check_poses(pair, convention=replace(native, **change), time=times, frames=frames, field_of_view=view)
        assert wrong.better is not None, change
        assert wrong.warnings


def test_millimeters_are_named_without_pictures(walk) -> None:  # type: ignore[no-untyped-def]
    poses, times, _, _ = walk
    report = check_poses((1000 * poses[:, :3], poses[:, 3:]), convention=Convention.native(), time=times)
    assert report.contradicted and "mm" in (report.better or "")
    assert report.warped_db is None and report.readings == {}


def test_bad_input_is_refused(walk) -> None:  # type: ignore[no-untyped-def]
    poses, times, frames, view = walk
    pair, native = (poses[:, :3], poses[:, 3:]), Convention.native()
    with pytest.raises(InputError, match="poses and"):
        check_poses(pair, convention=native, time=times[:-1])
    with pytest.raises(InputError, match="ascend"):
        check_poses(pair, convention=native, time=times[::-1].copy())
    with pytest.raises(InputError, match="angles"):
        check_poses(pair, convention=native, time=times, frames=frames)
    with pytest.raises(InputError, match="frames"):
        check_poses(pair, convention=native, time=times, frames=frames[:-1], field_of_view=view)
    with pytest.raises(InputError, match="field of view"):
        check_poses(pair, convention=native, time=times, frames=frames, field_of_view=(90.0, 190.0))
    broken = poses.copy()
    broken[4, 3:] = np.nan
    with pytest.raises(InputError, match="pose 4"):
        check_poses((broken[:, :3], broken[:, 3:]), convention=native, time=times)
    with pytest.raises(InputError, match="order of quaternions"):
        check_poses(pair, convention=replace(native, quaternion=None), time=times)
