#!/usr/bin/env python3
"""Golden spectrograms of sound, made once with SciPy in double precision.

Writes one small safetensors: pooled channels [5, rows, columns] of a second of made-up sound, and of a
shorter window at another rate. The samples are not stored: the test makes
the same ones by `uniform`.

    pip install numpy scipy safetensors
    python3 scripts/make_audio_fixtures.py
"""
import pathlib

import numpy as np
from safetensors.numpy import save_file
from scipy.signal import get_window
from scipy.fft import rfft

FLOOR = 1e-3


def uniform(count, stream):
    """Numbers in [0, 1) that depend on their place and the stream alone."""
    mask = 0xFFFFFFFF
    place = np.arange(count, dtype=np.uint64)
    x = (place * 747796405 + stream * 2891336453 + 1) & mask
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
    x = ((x ^ (x >> 15)) * 0x846CA68B) & mask
    return (((x ^ (x >> 16)) >> 8) / float(1 << 24)).astype(np.float32)


def sound(count, stream):
    """Noise that is alike in both ears in part; rounded to f32 as the test has it."""
    noise = uniform(2 * count, stream).reshape(count, 2) - np.float32(0.5)
    left = np.float32(0.2) * noise[:, 0]
    right = np.float32(0.1) * noise[:, 1] + np.float32(0.05) * noise[:, 0]
    return np.stack([left, right], axis=1)


def spectrogram(samples, length, gain):
    """Channels of a window of `length` samples that ends with the samples' last."""
    ears = []
    for ear in range(2):
        signal = samples[-length:, ear].astype(np.float64)
        signal = np.concatenate([np.zeros(length - len(signal)), signal])
        padded = np.pad(signal, 256)
        window = np.pad(get_window("hann", 400, fftbins=True), 56)
        starts = range(0, length + 1, 160)
        frames = np.stack([padded[start:start + 512] * window for start in starts if start + 512 <= len(padded)])
        ears.append(rfft(frames, axis=1).T)
    left, right = ears

    def pool(plane):
        rows, columns = plane.shape
        plane = np.pad(plane, [(0, -rows % 4), (0, -columns % 4)])
        rows, columns = plane.shape
        return plane.reshape(rows // 4, 4, columns // 4, 4).mean(axis=(1, 3))
    magnitudes = [pool(np.abs(ear)) for ear in ears]
    cross = pool(left * right.conj())
    phase = cross / (np.abs(cross) + FLOOR ** 2)
    level = np.log(magnitudes[0] + FLOOR) - np.log(magnitudes[1] + FLOOR)
    channels = np.stack([np.log1p(gain * magnitudes[0]), np.log1p(gain * magnitudes[1]), level,
                     phase.real, phase.imag])
    return np.ascontiguousarray(channels, dtype=np.float32)


def main():
    out = pathlib.Path(__file__).parent.parent / "crates/far-model/tests/fixtures/audio.safetensors"
    tensors = {
        "second": spectrogram(sound(16_000, 1), 16_000, 1.0),
        # The beginning of an episode: half of the window is silence. At 44.1 kHz.
        "start": spectrogram(sound(6_000, 2), 11_025, 30.0),
    }
    save_file(tensors, out)
    for name, tensor in tensors.items():
        print(name, tensor.shape, out.stat().st_size)


if __name__ == "__main__":
    main()
