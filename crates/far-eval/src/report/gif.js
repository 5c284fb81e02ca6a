// Animated GIF: a palette of its own for each frame, codes of variable length, repeated for ever.

/** Up to 256 colors for a frame by median cut, and the color of every pixel. */
function quantize({ data: bytes }) {
  const bins = new Map();
  const binOf = (at) => ((bytes[at] >> 3) << 10) | ((bytes[at + 1] >> 3) << 5) | (bytes[at + 2] >> 3);
  for (let at = 0; at < bytes.length; at += 4) {
    const key = binOf(at);
    const bin = bins.get(key) ?? { key, count: 0, sum: [0, 0, 0] };
    bin.count += 1;
    for (let channel = 0; channel < 3; channel += 1) bin.sum[channel] += bytes[at + channel];
    bins.set(key, bin);
  }
  const boxes = [measured([...bins.values()])];
  while (boxes.length < 256) {
    const widest = boxes.reduce((best, box) => (box.spread > (best?.spread ?? 0) ? box : best), null);
    if (!widest) break;
    boxes.splice(boxes.indexOf(widest), 1, ...halves(widest).map(measured));
  }
  const palette = new Uint8Array(3 * 256);
  const colorOf = new Map();
  boxes.forEach(({ bins: own }, index) => {
    const count = own.reduce((sum, bin) => sum + bin.count, 0);
    for (let channel = 0; channel < 3; channel += 1) {
      palette[3 * index + channel] = Math.round(own.reduce((sum, bin) => sum + bin.sum[channel], 0) / count);
    }
    own.forEach((bin) => colorOf.set(bin.key, index));
  });
  const indices = new Uint8Array(bytes.length / 4);
  for (let pixel = 0; pixel < indices.length; pixel += 1) indices[pixel] = colorOf.get(binOf(4 * pixel));
  return { palette, indices };
}

/** A box of colors with the channel along which it is longest; many pixels make it longer. */
function measured(bins) {
  const extents = [0, 1, 2].map((channel) => {
    const levels = bins.map((bin) => bin.sum[channel] / bin.count);
    return Math.max(...levels) - Math.min(...levels);
  });
  const longest = Math.max(...extents);
  const count = bins.reduce((sum, bin) => sum + bin.count, 0);
  return { bins, channel: extents.indexOf(longest), spread: bins.length > 1 ? (longest + 1) * Math.sqrt(count) : 0 };
}

/** A box cut where half of its pixels lie on either side. */
function halves({ bins, channel }) {
  const sorted = [...bins].sort((a, b) => a.sum[channel] / a.count - b.sum[channel] / b.count);
  const half = sorted.reduce((sum, bin) => sum + bin.count, 0) / 2;
  let [cut, before] = [0, 0];
  while (cut < sorted.length - 1 && (cut === 0 || before + sorted[cut].count <= half)) {
    before += sorted[cut].count;
    cut += 1;
  }
  return [sorted.slice(0, cut), sorted.slice(cut)];
}

/** Lempel-Ziv-Welch as GIF has it, for indices of eight bits. */
function compress(indices) {
  const [clear, end] = [256, 257];
  const bytes = [];
  let [held, bits, size, next] = [0, 0, 9, 258];
  let codes = new Map();
  const put = (code) => {
    held |= code << bits;
    bits += size;
    for (; bits >= 8; bits -= 8) {
      bytes.push(held & 255);
      held >>>= 8;
    }
  };
  put(clear);
  let prefix = indices[0];
  for (const index of indices.subarray(1)) {
    const key = (prefix << 8) | index;
    const known = codes.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    put(prefix);
    if (next < 4096) {
      codes.set(key, next);
      // The reader is one code behind: it widens its codes when it has learned this one.
      if (next === 1 << size) size += 1;
      next += 1;
    } else {
      put(clear);
      [size, next, codes] = [9, 258, new Map()];
    }
    prefix = index;
  }
  put(prefix);
  put(end);
  if (bits > 0) bytes.push(held & 255);
  return bytes;
}

/** Frames of one size as an animated GIF, each shown for some milliseconds. */
function encodeGif(frames, milliseconds) {
  const word = (value) => [value & 255, (value >> 8) & 255];
  const text = (letters) => [...letters].map((letter) => letter.charCodeAt(0));
  const { width, height } = frames[0];
  const parts = [
    [...text("GIF89a"), ...word(width), ...word(height), 0x70, 0, 0],
    [0x21, 0xff, 11, ...text("NETSCAPE2.0"), 3, 1, 0, 0, 0],
  ];
  for (const frame of frames) {
    const { palette, indices } = quantize(frame);
    parts.push([0x21, 0xf9, 4, 4, ...word(Math.round(milliseconds / 10)), 0, 0]);
    parts.push([0x2c, 0, 0, 0, 0, ...word(width), ...word(height), 0x87], palette, [8]);
    const bytes = compress(indices);
    for (let at = 0; at < bytes.length; at += 255) {
      const block = bytes.slice(at, at + 255);
      parts.push([block.length, ...block]);
    }
    parts.push([0]);
  }
  parts.push([0x3b]);
  const gif = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    gif.set(part, at);
    at += part.length;
  }
  return gif;
}
