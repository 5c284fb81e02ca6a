// A picture in large, above the page: one by itself, or an arm's beside the truth, which moves with the step.

/** The arm that is shown in large; null for a picture by itself. */
let enlargedArm = null;

const dialog = byId("enlarged");

/** Shows the dialog with some canvases; the first save is of what they show. */
function openEnlarged(title, figures) {
  byId("enlarged-title").textContent = title;
  byId("enlarged-pictures").replaceChildren(...figures.map(({ canvas, caption }) => element("figure", {}, canvas, element("figcaption", {}, caption))));
  for (const id of ["enlarged-back", "enlarged-on"]) byId(id).hidden = enlargedArm === null;
  if (dialog.open) return;
  dialog.showModal();
  dialog.focus();
}

/** A copy of a canvas in large. */
function enlargePicture(title, source) {
  enlargedArm = null;
  const canvas = element("canvas", { width: source.width, height: source.height, role: "img", "aria-label": title });
  canvas.getContext("2d").drawImage(source, 0, 0);
  openEnlarged(title, [{ canvas, caption: title }]);
}

/** An arm's prediction at the current step beside the truth after the tokenizer. */
function enlargeArm(name) {
  enlargedArm = name;
  drawEnlarged();
}

function drawEnlarged() {
  const { replay } = view;
  const { picture: id, psnr } = replay.arms[enlargedArm][state.step];
  const decoded = replay.decoded[state.step];
  const [truth, prediction] = [plainFrame(replay, "truth, decoded"), plainFrame(replay, enlargedArm)];
  paint(truth, decoded);
  paint(prediction, id, state.overlay ? decoded : undefined);
  const shown = state.overlay ? `${enlargedArm}, error in red` : enlargedArm;
  openEnlarged(`${enlargedArm}, ${stepText()}`, [
    { canvas: truth, caption: "truth, decoded" },
    { canvas: prediction, caption: `${shown} · ${number(psnr, 1)} dB` },
  ]);
}

/** Saves what is shown in large, each picture with its caption. */
function saveEnlarged() {
  const tiles = [...byId("enlarged-pictures").querySelectorAll("figure")].map((figure) => ({
    canvas: figure.querySelector("canvas"), caption: figure.querySelector("figcaption").textContent,
  }));
  savePng(fileName(byId("enlarged-title").textContent, "png"), sheet(tiles, 512));
}

function listenToEnlarged() {
  byId("enlarged-close").addEventListener("click", () => dialog.close());
  byId("enlarged-save").addEventListener("click", saveEnlarged);
  byId("enlarged-back").addEventListener("click", () => seek(state.step - 1));
  byId("enlarged-on").addEventListener("click", () => seek(state.step + 1));
  // A press beside the pictures closes, as people expect.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
