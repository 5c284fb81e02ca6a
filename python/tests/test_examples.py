"""Every example runs, at small size."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(*command: str, timeout: float = 300) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=timeout, cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    return done.stdout


def torchrun(*arguments: str) -> list[str]:
    return ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *arguments]


def losses(output: str) -> np.ndarray:
    return np.array([[line["model"], line["recall"]] for line in map(json.loads, output.splitlines())])


def test_ten_lines() -> None:
    output = run("ten_lines.py")
    assert "nearest-pose ['" in output and "300.jpg" in output and "gate: " in output


def test_a_world_model_of_one_s_own_learns_recalls_and_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sizes = {"episodes": 8, "steps": 20, "batch": 4, "clips": 1, "size": 16}
    options = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    output = run("own_world_model.py", "--folder", str(tmp_path), *options)
    results = json.loads((tmp_path / "results.json").read_text())
    assert {"far-multi", "worldmem", "nearest-pose", "none", "random", "copy", "oracle"} <= set(results["arms"])
    assert results["clips"] == 1 and results["corpus"] == "village" and "recall quality" in output
    assert {"mean", "lo", "hi"} <= set(results["paired"]["far-multi"]["random"]["psnr"])
    assert (tmp_path / "retriever.safetensors").exists() and "far-multi" in (tmp_path / "report/index.html").read_text()
    assert len((EXAMPLES / "own_world_model.py").read_text().splitlines()) < 200


def test_the_notebook_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    notebook = json.loads((EXAMPLES / "memory.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("import matplotlib\nmatplotlib.use('Agg')\n" + "\n\n".join(cells))
    output = run(str(script))
    assert "gate: " in output and "in the fork" in output


def test_two_processes_have_the_losses_of_one_with_the_double_batch() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    one = losses(run("ddp.py", "--steps", "50"))
    two = losses(run(*torchrun("ddp.py", "--steps", "50")))
    assert len(one) == len(two) == 50 and (one[:, 1] > 0).all()
    np.testing.assert_allclose(one, two, atol=1e-4)
    assert one[-5:, 0].mean() < one[:5, 0].mean(), "and the model learns"


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the ranks in /proc")
def test_a_killed_rank_ends_the_other_with_a_message() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    command = [sys.executable, *torchrun("ddp.py", "--steps", "1000000")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=EXAMPLES) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()  # the first step is done
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        ranks = [int(child) for child in children if "ddp.py" in Path(f"/proc/{child}/cmdline").read_text()]
        assert len(ranks) == 2
        os.kill(ranks[1], signal.SIGKILL)
        killed = time.monotonic()
        output, errors = running.communicate(timeout=30)
        assert running.returncode != 0 and "SIGKILL" in errors or "exitcode" in errors
        print(f"ended after {time.monotonic() - killed:.1f} s")
    assert not any(Path(f"/proc/{rank}/cmdline").exists() and b"ddp.py" in Path(f"/proc/{rank}/cmdline").read_bytes() for rank in ranks)
