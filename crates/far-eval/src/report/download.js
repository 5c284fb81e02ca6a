// What is shown, as files: pictures as PNG and GIF, numbers as CSV. Everything is made here; nothing is sent.

/** A name that every file system takes. */
function fileName(text, ending) {
  return `${text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80)}.${ending}`;
}

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Rows as CSV; fields that need it are quoted. */
function csv(rows) {
  const field = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((row) => row.map(field).join(",")).join("\n")}\n`;
}

function saveCsv(name, rows) {
  save(name, new Blob([csv(rows)], { type: "text/csv" }));
}

function savePng(name, canvas) {
  canvas.toBlob((blob) => save(name, blob), "image/png");
}

/** A number in its unit, without digits that mean nothing. */
const plain = (value, factor = 1) => (finite(value) ? Number((value * factor).toPrecision(7)) : null);

/** Every value and every difference of a run, one per row. */
function resultRows(run) {
  const { metrics, rows, paired, learned } = run.headline;
  const lines = (arm, minus, cells) => cells.flatMap((cell, column) => {
    if (!cell) return [];
    const { id, label, unit, factor } = metrics[column];
    const { mean, lo, hi, n } = cell.value;
    return [[arm, minus, id, label, unit, plain(mean, factor), plain(lo, factor), plain(hi, factor), n, cell.verdict ?? ""]];
  });
  return [
    ["arm", "minus", "id", "metric", "unit", "mean", "low", "high", "n", "verdict"],
    ...rows.flatMap((row) => lines(row.arm, "", row.cells)),
    ...paired.flatMap((row) => lines(learned, row.arm, row.cells)),
  ];
}

/** Every step of a clip by arm: how good the frame is and what it was made from. */
function clipRows(replay) {
  const steps = Object.entries(replay.arms).flatMap(([name, own]) => own.map((step, index) =>
    [name, index + 1, replay.frames[index], plain(step.psnr), step.recalled.map((recalled) => recalled.frame).join(" ")]));
  return [["arm", "step", "frame", "PSNR in dB", "recalled frames"], ...steps];
}

/** Pictures side by side with their captions, each at least `least` pixels wide. */
function sheet(tiles, least) {
  const scale = Math.max(1, Math.ceil(least / tiles[0].canvas.width));
  const [width, height] = [tiles[0].canvas.width * scale, tiles[0].canvas.height * scale];
  const [gap, line] = [8, 20];
  const columns = Math.min(tiles.length, Math.max(1, Math.ceil(Math.sqrt(tiles.length * 1.6))));
  const rows = Math.ceil(tiles.length / columns);
  const canvas = element("canvas", { width: gap + columns * (width + gap), height: gap + rows * (height + line + gap) });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.getPropertyValue("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = "13px system-ui, sans-serif";
  tiles.forEach((tile, index) => {
    const x = gap + (index % columns) * (width + gap);
    const y = gap + Math.floor(index / columns) * (height + line + gap);
    context.drawImage(tile.canvas, x, y, width, height);
    context.fillText(tile.caption, x, y + height + 15, width);
  });
  return canvas;
}

/** The pictures of a step as they are shown, in large; `draw` waits until all are painted. */
async function stepSheet(step) {
  const { replay } = view;
  const wanted = [["truth", replay.truth[step]], ["truth, decoded", replay.decoded[step]],
    ...shownArms().map((name) => [`${name} · ${number(replay.arms[name][step].psnr, 1)} dB`, replay.arms[name][step].picture, name])];
  const tiles = await Promise.all(wanted.map(async ([caption, id, name]) => {
    const canvas = plainFrame(replay, caption);
    await paint(canvas, id, name && state.overlay ? replay.decoded[step] : undefined);
    return { canvas, caption };
  }));
  return sheet(tiles, 128);
}

const clipName = () => `${currentRun().name} clip ${state.clip + 1}`;

async function saveStep() {
  savePng(fileName(`${clipName()} step ${state.step + 1}`, "png"), await stepSheet(state.step));
}

/** The clip as the page plays it, at the chosen speed. */
async function clipGif() {
  const frames = [];
  for (let step = 0; step < view.replay.frames.length; step += 1) {
    const canvas = await stepSheet(step);
    frames.push(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height));
  }
  return new Blob([encodeGif(frames, frameTime())], { type: "image/gif" });
}

async function saveGif(event) {
  const button = event.currentTarget;
  button.disabled = true;
  try {
    save(fileName(clipName(), "gif"), await clipGif());
  } finally {
    button.disabled = false;
  }
}

function listenToDownloads() {
  byId("save-png").addEventListener("click", saveStep);
  byId("save-gif").addEventListener("click", saveGif);
  byId("save-csv").addEventListener("click", () => saveCsv(fileName(clipName(), "csv"), clipRows(view.replay)));
  byId("results-csv").addEventListener("click", () => saveCsv(fileName(`${currentRun().name} results`, "csv"), resultRows(currentRun())));
  byId("training-csv").addEventListener("click", () => saveCsv(fileName(`${currentRun().name} training`, "csv"), trainingRows(currentRun())));
}
