"""Writes small made-up recordings in every format that `far data import` reads, with known poses.

Needs numpy; LeRobot's tables also need pyarrow. One walk through one room is written over and over:

    python scripts/make_import_sources.py                      # the fixtures of the tests
    python scripts/make_import_sources.py --out DIR --pictures # whole sources, to try by hand

The fixtures hold every picture once, in `pictures/`; `pictures.txt` of a source says where each belongs.
Nothing here shares code with far: poses are built from directions, one column at a time.
"""

import argparse
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

FRAMES, FPS = 36, 10
WIDTH, HEIGHT = 32, 24
HORIZONTAL = 80.0  # degrees
EYE = 1.6
FIXTURES = Path(__file__).parent.parent / "crates/far-data/tests/import_sources"

FOCAL = 0.5 * WIDTH / np.tan(np.radians(HORIZONTAL) / 2)  # square pixels


def walk():
    """Positions, yaw and pitch of one and a half rounds about the room, X east, Y north, Z up."""
    step = np.arange(FRAMES)
    yaw = 2 * np.pi * 1.5 * step / FRAMES + 0.3
    pitch = 0.3 * np.sin(0.4 * step)
    position = np.stack([1.2 * np.sin(yaw), -1.2 * np.cos(yaw), np.full(FRAMES, EYE)], 1)
    return position, yaw, pitch


def directions(yaw, pitch):
    """Right, down and forward of the camera, in world axes."""
    forward = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), np.sin(pitch)])
    right = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    return right, np.cross(forward, right), forward


def render(position, right, down, forward):
    """The room from one pose: a box with soft waves on its walls."""
    x = (2 * np.arange(WIDTH) + 1) / WIDTH - 1
    y = (2 * np.arange(HEIGHT) + 1) / HEIGHT - 1
    tangent = np.tan(np.radians(HORIZONTAL) / 2)
    rays = (
        forward
        + tangent * x[None, :, None] * right
        + tangent * HEIGHT / WIDTH * y[:, None, None] * down
    )
    low, high = np.array([-8.0, -7.0, -3.0]), np.array([8.0, 7.0, 6.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(rays > 0, (high - position) / rays, (low - position) / rays)
    reach = np.where(np.abs(rays) < 1e-9, np.inf, reach).min(axis=2)
    place = position + reach[..., None] * rays
    waves = [
        np.sin(1.1 * place[..., 0] + 0.7 * place[..., 1]),
        np.sin(1.3 * place[..., 1] - 0.9 * place[..., 2] + 1),
        np.sin(1.7 * place[..., 2] + 0.8 * place[..., 0] + 2),
    ]
    gray = 128 + 36 * sum(waves)
    color = np.stack([gray, 0.9 * gray, 0.8 * gray + 10], 2)
    return np.clip(np.round(color), 0, 255).astype(np.uint8)


def png(pixels):
    """The bytes of a PNG file."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    # Differences between rows compress better.
    rows[1:, 1:] -= pixels.reshape(height, -1)[:-1]
    rows[1:, 0] = 2
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def quaternion(matrix):
    """(w, x, y, z) by the eigenvector of the largest eigenvalue: slow, and nothing can go wrong."""
    m = matrix
    k = np.array([
        [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
        [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
        [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
        [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
    ])
    vector = np.linalg.eigh(k)[1][:, -1]
    return vector if vector[0] >= 0 else -vector


# World axes of sources, as rows in ours.
Z_UP = np.eye(3)
Y_DOWN = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], float)  # x right, y down, z ahead
Y_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], float)  # x east, y up, z south
UNITY = np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]], float)  # x east, y up, z north: left-handed
NED = np.array([[1, 0, 0], [0, -1, 0], [0, 0, -1]], float)  # z down


class Walk:
    """The walk in any axes."""

    def __init__(self):
        self.position, self.yaw, self.pitch = walk()
        self.directions = [directions(*angles) for angles in zip(self.yaw, self.pitch)]

    def poses(self, axes="rdf", world=Z_UP, unit=1.0):
        """Camera-to-world rotation and position of every frame."""
        for position, (right, down, forward) in zip(self.position, self.directions):
            named = {"r": right, "l": -right, "d": down, "u": -down, "f": forward, "b": -forward}
            rotation = np.stack([named[letter] for letter in axes], 1)
            yield world @ rotation, world @ position / unit

    def inverse(self, **convention):
        for rotation, position in self.poses(**convention):
            yield rotation.T, -rotation.T @ position


def rows(rotation, translation, last=True):
    matrix = np.concatenate([rotation, translation[:, None]], 1)
    return np.concatenate([matrix, [[0, 0, 0, 1]]]) if last else matrix


def text(numbers):
    return " ".join(f"{number:.8g}" for number in numbers)


class Sources:
    """A folder of sources."""

    def __init__(self, out, pictures):
        self.out, self.whole = Path(out), pictures
        self.walk = Walk()
        self.png = [
            png(render(position, *axes))
            for position, axes in zip(self.walk.position, self.walk.directions)
        ]

    def write(self, path, content):
        path = self.out / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)

    def place(self, source, names):
        """Puts the pictures of a source where they belong, or says where that is."""
        if not self.whole:
            self.write(f"{source}/pictures.txt", "".join(f"{name}\n" for name in names))
            return
        for name, content in zip(names, self.png):
            self.write(f"{source}/{name}", content)

    def truth(self):
        lines = ["time,x,y,z,qw,qx,qy,qz"]
        for frame, (rotation, position) in enumerate(self.walk.poses()):
            numbers = [frame / FPS, *position, *quaternion(rotation)]
            lines.append(",".join(f"{number:.8g}" for number in numbers))
        self.write("truth.csv", "\n".join(lines) + "\n")
        if not self.whole:
            for frame, content in enumerate(self.png):
                self.write(f"pictures/{frame:03}.png", content)

    def frames(self, name, order="wxyz", matrix=False, **convention):
        """`frames` in one convention."""
        inverse = convention.pop("inverse", False)
        poses = self.walk.inverse(**convention) if inverse else self.walk.poses(**convention)
        if matrix:
            header = ",".join(f"m{row}{column}" for row in range(3) for column in range(4))
        else:
            header = "x,y,z,qw,qx,qy,qz"
        lines = [f"time,{header},phase"]
        for frame, (rotation, translation) in enumerate(poses):
            if matrix:
                numbers = rows(rotation, translation, last=False).ravel()
            else:
                w, x, y, z = quaternion(rotation)
                numbers = [*translation, *({"wxyz": [w, x, y, z], "xyzw": [x, y, z, w]}[order])]
            phase = "explore" if frame < FRAMES * 2 // 3 else "return"
            values = ",".join(f"{number:.8g}" for number in numbers)
            lines.append(f"{frame / FPS},{values},{phase}")
        self.write(f"{name}/poses.csv", "\n".join(lines) + "\n")
        self.place(name, [f"images/{frame:06}.png" for frame in range(FRAMES)])

    def seven_scenes(self):
        for frame, pose in enumerate(self.walk.poses(world=Y_DOWN)):
            lines = [text(row) for row in rows(*pose)]
            self.write(f"seven-scenes/seq-01/frame-{frame:06}.pose.txt", "\n".join(lines) + "\n")
        self.place("seven-scenes", [f"seq-01/frame-{frame:06}.color.png" for frame in range(FRAMES)])
        self.write("seven-scenes/TrainSplit.txt", "sequence1\n")

    def tum(self):
        track = ["# timestamp tx ty tz qx qy qz qw"]
        for frame, (rotation, position) in enumerate(self.walk.poses()):
            w, x, y, z = quaternion(rotation)
            track.append(text([100 + frame / FPS + 0.004, *position, x, y, z, w]))
            # Poses come oftener than pictures: one that is too far away in time, and wrong.
            track.append(text([100 + frame / FPS + 0.05, 9, 9, 9, 0, 0, 0, 1]))
        self.write("tum/groundtruth.txt", "\n".join(track) + "\n")
        names = [f"rgb/{100 + frame / FPS:.6f}.png" for frame in range(FRAMES)]
        lines = [f"{100 + frame / FPS:.6f} {name}" for frame, name in enumerate(names)]
        self.write("tum/rgb.txt", "# color images\n" + "\n".join(lines) + "\n")
        self.place("tum", names)

    def transforms(self):
        names = [f"images/frame_{frame:05}.png" for frame in range(FRAMES)]
        frames = [
            {"file_path": f"./{name}", "transform_matrix": rows(*pose).round(9).tolist()}
            for name, pose in zip(names, self.walk.poses(axes="rub"))
        ]
        frames.reverse()  # Tools do not keep the order.
        content = {"camera_model": "OPENCV", "fl_x": FOCAL, "fl_y": FOCAL, "cx": WIDTH / 2,
                   "cy": HEIGHT / 2, "w": WIDTH, "h": HEIGHT, "frames": frames}
        self.write("transforms/transforms.json", json.dumps(content))
        self.place("transforms", names)

    def colmap(self):
        tilt = directions(0.4, 0.3)  # A world that is not level.
        world = np.stack(tilt) * 1.0
        names = [f"images/{frame:04}.png" for frame in range(FRAMES)]
        cameras = f"# cameras\n1 PINHOLE {WIDTH} {HEIGHT} {FOCAL} {FOCAL} {WIDTH / 2} {HEIGHT / 2}\n"
        lines = ["# images"]
        binary = struct.pack("<Q", FRAMES)
        for frame, (rotation, translation) in enumerate(self.walk.inverse(world=world)):
            numbers = [*quaternion(rotation), *translation]
            lines += [f"{frame + 1} {text(numbers)} 1 {frame:04}.png", "1.5 2.5 -1" if frame % 2 else ""]
            points = frame % 2
            binary += struct.pack("<I7dI", frame + 1, *numbers, 1) + f"{frame:04}.png\0".encode()
            binary += struct.pack("<Q", points) + struct.pack("<ddq", 1.5, 2.5, -1) * points
        self.write("colmap-text/sparse/0/cameras.txt", cameras)
        self.write("colmap-text/sparse/0/images.txt", "\n".join(lines) + "\n")
        self.write("colmap-binary/sparse/0/cameras.bin", struct.pack(
            "<QIIQQ4d", 1, 1, 1, WIDTH, HEIGHT, FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2))
        self.write("colmap-binary/sparse/0/images.bin", binary)
        self.place("colmap-text", names)
        self.place("colmap-binary", names)

    def realestate10k(self):
        lines = ["https://example.org/house"]
        for frame, pose in enumerate(self.walk.inverse(world=Y_DOWN)):
            camera = [FOCAL / WIDTH, FOCAL / HEIGHT, 0.5, 0.5, 0, 0]
            numbers = text([*camera, *rows(*pose, last=False).ravel()])
            lines.append(f"{frame * 1_000_000 // FPS} {numbers}")
        self.write("realestate10k/00ab.txt", "\n".join(lines) + "\n")
        self.place("realestate10k", [f"00ab/{frame * 1_000_000 // FPS}.png" for frame in range(FRAMES)])

    def scannet(self):
        for frame, pose in enumerate(self.walk.poses()):
            lines = [text(row) for row in rows(*pose)]
            self.write(f"scannet/scene0000_00/pose/{frame}.txt", "\n".join(lines) + "\n")
        # Tracking is lost at the end.
        for frame in range(FRAMES, FRAMES + 3):
            self.write(f"scannet/scene0000_00/pose/{frame}.txt", "-inf -inf -inf -inf\n" * 4)
        matrix = np.diag([FOCAL, FOCAL, 1, 1])
        matrix[:2, 2] = [WIDTH / 2, HEIGHT / 2]
        self.write("scannet/scene0000_00/intrinsic/intrinsic_color.txt", "\n".join(map(text, matrix)) + "\n")
        self.place("scannet", [f"scene0000_00/color/{frame}.png" for frame in range(FRAMES)])

    def tartanair(self):
        lines = []
        for rotation, position in self.walk.poses(axes="frd", world=NED):
            w, x, y, z = quaternion(rotation)
            lines.append(text([*position, x, y, z, w]))
        self.write("tartanair/office/Easy/P001/pose_left.txt", "\n".join(lines) + "\n")
        self.place("tartanair", [f"office/Easy/P001/image_left/{frame:06}_left.png" for frame in range(FRAMES)])

    def loopnav(self):
        """Minecraft: x east, y up, z south; yaw counter-clockwise from north; feet, not eyes."""
        records = []
        for frame in range(FRAMES):
            x, y, z = Y_UP @ self.walk.position[frame]
            away = frame < FRAMES * 2 // 3
            goal = {"x": 9, "y": 0, "z": 9} if away else {"x": 0, "z": 1, "rangeSq": 1}
            records.append({
                "x": float(x), "y": float(y - EYE), "z": float(z),
                "yaw": float(self.walk.yaw[frame] - np.pi / 2), "pitch": float(self.walk.pitch[frame]),
                "action": {"forward": True, "camera": [0.0, 0.0]}, "goal": goal,
                "frame_count": 20 + frame,
                "extra_info": {"seed": 42, "location": "plains", "nvtype": "ABA", "nvrange": 5},
            })
        self.write("loopnav/ABA/plains_village_3/5/05-04_13-57-20.json", json.dumps(records))
        self.video("loopnav", ["ABA/plains_village_3/5/05-04_13-57-20.avi"])

    def worldmem(self):
        """Vanilla Minecraft: yaw clockwise from south in degrees, pitch positive downward."""
        position = np.stack([Y_UP @ place for place in self.walk.position])
        position[:, 1] -= 1.62
        yaw = np.degrees(-np.pi / 2 - self.walk.yaw)
        pitch = np.degrees(-self.walk.pitch)
        poses = np.concatenate([position, pitch[:, None], yaw[:, None]], 1).astype(np.float64)
        path = self.out / "worldmem/training/plains/000001.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"actions": np.zeros((FRAMES, 8), np.int64), "poses": poses}
        # numpy's own writer puts the present time into the archive.
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(info, "w") as file:
                    np.lib.format.write_array(file, array)
        self.video("worldmem", ["training/plains/000001.mp4"])

    def soundspaces(self):
        """Habitat: x right, y up, -z forward; quaternions (x, y, z, w) of the camera."""
        lines = []
        for frame, (rotation, position) in enumerate(self.walk.poses(axes="rub", world=Y_UP)):
            w, x, y, z = quaternion(rotation)
            lines.append(json.dumps({
                "time": frame / FPS, "position": [float(value) for value in position],
                "rotation": [float(value) for value in (x, y, z, w)], "image": f"rgb/{frame:05}.png"}))
        self.write("soundspaces/17DRP5sb8fy/0/trajectory.jsonl", "\n".join(lines) + "\n")
        self.place("soundspaces", [f"17DRP5sb8fy/0/rgb/{frame:05}.png" for frame in range(FRAMES)])

    def thor(self):
        """AI2-THOR: Unity's axes, yaw clockwise from z in degrees, horizon positive downward."""
        lines = []
        vertical = np.degrees(2 * np.arctan(0.5 * HEIGHT / FOCAL))
        for frame in range(FRAMES):
            x, y, z = (float(value) for value in UNITY @ self.walk.position[frame])
            lines.append(json.dumps({
                "sceneName": "FloorPlan1", "fov": vertical, "screenWidth": WIDTH, "screenHeight": HEIGHT,
                "lastAction": "MoveAhead", "lastActionSuccess": True,
                "cameraPosition": {"x": x, "y": y, "z": z},
                "agent": {"position": {"x": x, "y": 0.9, "z": z},
                          "rotation": {"x": 0, "y": float(90 - np.degrees(self.walk.yaw[frame])), "z": 0},
                          "cameraHorizon": float(-np.degrees(self.walk.pitch[frame]))}}))
        self.write("thor/episode_0/metadata.jsonl", "\n".join(lines) + "\n")
        self.place("thor", [f"episode_0/frames/{frame:05}.png" for frame in range(FRAMES)])

    def lerobot(self):
        """Two versions of LeRobot; the camera's pose is a feature of seven numbers."""
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            print("pyarrow is not there: LeRobot's tables are left as they are")
            return
        poses = [[*position, *quaternion(rotation)] for rotation, position in self.walk.poses()]
        half = FRAMES // 2
        features = {
            "observation.camera_pose": {"dtype": "float32", "shape": [7], "names": None},
            "observation.images.front": {"dtype": "video", "shape": [HEIGHT, WIDTH, 3],
                                         "names": ["height", "width", "channels"]},
        }
        info = {"fps": FPS, "total_episodes": 2, "total_frames": FRAMES, "chunks_size": 1000,
                "splits": {"train": "0:1", "test": "1:2"}, "features": features}

        def table(frames, first):
            count = len(frames)
            return arrow.table({
                "observation.camera_pose": arrow.array(
                    [poses[frame] for frame in frames], arrow.list_(arrow.float32(), 7)),
                "timestamp": arrow.array([(frame % half) / FPS for frame in frames], arrow.float32()),
                "frame_index": arrow.array([frame % half for frame in frames], arrow.int64()),
                "episode_index": arrow.array([first + at // half for at in range(count)], arrow.int64()),
                "index": arrow.array(list(frames), arrow.int64()),
                "task_index": arrow.array([0] * count, arrow.int64()),
            })

        def write(path, content):
            path = self.out / path
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(content, path)

        old = {**info, "codebase_version": "v2.1",
               "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
               "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"}
        self.write("lerobot-v2/meta/info.json", json.dumps(old))
        lines = [json.dumps({"episode_index": episode, "tasks": ["walk"], "length": half}) for episode in (0, 1)]
        self.write("lerobot-v2/meta/episodes.jsonl", "\n".join(lines) + "\n")
        for episode in (0, 1):
            frames = range(episode * half, (episode + 1) * half)
            write(f"lerobot-v2/data/chunk-000/episode_{episode:06}.parquet", table(frames, episode))
        self.video("lerobot-v2", [
            f"videos/chunk-000/observation.images.front/episode_{episode:06}.mp4" for episode in (0, 1)])
        new = {**info, "codebase_version": "v3.0",
               "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
               "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"}
        self.write("lerobot-v3/meta/info.json", json.dumps(new))
        write("lerobot-v3/data/chunk-000/file-000.parquet", table(range(FRAMES), 0))
        key = "videos/observation.images.front"
        write("lerobot-v3/meta/episodes/chunk-000/file-000.parquet", arrow.table({
            "episode_index": arrow.array([0, 1], arrow.int64()),
            "tasks": [["walk"], ["walk"]],
            "length": arrow.array([half, half], arrow.int64()),
            "data/chunk_index": arrow.array([0, 0], arrow.int64()),
            "data/file_index": arrow.array([0, 0], arrow.int64()),
            "dataset_from_index": arrow.array([0, half], arrow.int64()),
            "dataset_to_index": arrow.array([half, FRAMES], arrow.int64()),
            f"{key}/chunk_index": arrow.array([0, 0], arrow.int64()),
            f"{key}/file_index": arrow.array([0, 0], arrow.int64()),
            f"{key}/from_timestamp": arrow.array([0.0, half / FPS], arrow.float64()),
            f"{key}/to_timestamp": arrow.array([half / FPS, FRAMES / FPS], arrow.float64()),
        }))
        self.video("lerobot-v3", [f"{key}/chunk-000/file-000.mp4"])

    def video(self, source, names):
        """Says which videos hold the pictures, in equal parts."""
        share = FRAMES // len(names)
        parts = [f"{name} {part * share} {(part + 1) * share}\n" for part, name in enumerate(names)]
        self.write(f"{source}/videos.txt", "".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=FIXTURES)
    parser.add_argument("--pictures", action="store_true", help="put pictures where each source wants them")
    arguments = parser.parse_args()
    sources = Sources(arguments.out, arguments.pictures)
    sources.truth()
    sources.frames("frames-opencv")
    sources.frames("frames-matrix", matrix=True)
    sources.frames("frames-opengl", axes="rub")
    sources.frames("frames-ros", axes="flu")
    sources.frames("frames-unity", axes="ruf", world=UNITY)
    sources.frames("frames-left-matrix", matrix=True, world=UNITY)
    sources.frames("frames-inverse", inverse=True)
    sources.frames("frames-millimeters", unit=0.001)
    sources.frames("frames-xyzw", order="xyzw")
    for name in ("seven_scenes tum transforms colmap realestate10k scannet tartanair loopnav worldmem "
                 "soundspaces thor lerobot").split():
        getattr(sources, name)()


if __name__ == "__main__":
    main()
