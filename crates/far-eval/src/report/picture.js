// Pictures and their errors.

const images = new Map();

/** A decoded picture by its number, loaded once. */
function image(id) {
  if (!images.has(id)) {
    const node = new Image();
    const loaded = new Promise((resolve) => {
      node.addEventListener("load", () => resolve(node));
      node.addEventListener("error", () => resolve(null));
    });
    node.src = `data:image/png;base64,${data.pictures[id]}`;
    images.set(id, loaded);
  }
  return images.get(id);
}

function pixels(node) {
  const canvas = document.createElement("canvas");
  canvas.width = node.naturalWidth;
  canvas.height = node.naturalHeight;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(node, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** |prediction − truth| in red over the truth in gray. */
function overlay(prediction, truth) {
  const result = new ImageData(prediction.width, prediction.height);
  for (let at = 0; at < result.data.length; at += 4) {
    const gray = 0.3 * truth.data[at] + 0.59 * truth.data[at + 1] + 0.11 * truth.data[at + 2];
    let error = 0;
    for (let channel = 0; channel < 3; channel += 1) error += Math.abs(prediction.data[at + channel] - truth.data[at + channel]);
    // A mean error of 110 of 255 is fully red.
    const share = Math.min(1, error / 330);
    const base = 60 + 0.5 * gray;
    result.data[at] = base + (235 - base) * share;
    result.data[at + 1] = base * (1 - share) + 40 * share;
    result.data[at + 2] = base * (1 - share) + 30 * share;
    result.data[at + 3] = 255;
  }
  return result;
}

/** Draws a picture, or its error against another one, unless the canvas has moved on meanwhile. */
async function paint(canvas, id, truth) {
  const wanted = `${id} ${truth ?? ""}`;
  canvas.dataset.wanted = wanted;
  const [node, reference] = await Promise.all([image(id), truth === undefined ? null : image(truth)]);
  if (canvas.dataset.wanted !== wanted || !node) return;
  canvas.width = node.naturalWidth;
  canvas.height = node.naturalHeight;
  const context = canvas.getContext("2d");
  if (reference) context.putImageData(overlay(pixels(node), pixels(reference)), 0, 0);
  else context.drawImage(node, 0, 0);
  canvas.dataset.painted = wanted;
}

/** A canvas of the size of a clip's pictures, so that nothing jumps while they load. */
function plainFrame(replay, label) {
  return element("canvas", { width: replay.size[0], height: replay.size[1], role: "img", "aria-label": label });
}

/** The same, that is shown larger when it is pressed. */
function frame(replay, label) {
  const canvas = plainFrame(replay, label);
  const enlarge = () => enlargePicture(label, canvas);
  canvas.classList.add("zoom");
  fill(canvas, { role: "button", tabindex: "0", "aria-label": `${label}: enlarge`, onclick: enlarge }, []);
  canvas.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    enlarge();
  });
  return canvas;
}
