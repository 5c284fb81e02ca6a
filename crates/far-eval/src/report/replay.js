// Replays: one clip, step by step, as every arm predicted it.

/** The clip that is being looked at, and what must move when the step does. */
let view = null;

const currentRun = () => data.runs[state.run];
const currentReplay = () => currentRun().replays[state.clip];

/** Arms of a clip in the order of the legend; the tokenizer stands beside the truth. */
function replayArms(replay) {
  return data.arms.map((arm) => arm.name).filter((name) => name in replay.arms && name !== "tokenizer");
}

function drawReplays() {
  const { replays } = currentRun();
  byId("replay-section").hidden = replays.length === 0;
  if (replays.length === 0) {
    view = null;
    return;
  }
  state.clip = Math.min(state.clip, replays.length - 1);
  choice(byId("clips"), replays.map((replay, index) => [index, `Clip ${index + 1}`, `Episode ${replay.episode}`]), state.clip, (index) => {
    state.clip = index;
    drawClip();
  });
  drawClip();
}

function drawClip() {
  const replay = currentReplay();
  const names = replayArms(replay);
  if (!names.includes(state.arm)) state.arm = names.find((name) => name === currentRun().headline.learned) ?? names[0] ?? null;
  state.step = Math.min(state.step, replay.frames.length - 1);
  byId("scrubber").max = replay.frames.length - 1;
  byId("focus").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  view = { replay, names, figures: drawFigures(replay, names), marked: null, charts: [] };
  drawStrip();
  drawFocus();
}

function picture(replay, name, caption, press) {
  const canvas = press ? plainFrame(replay, caption) : frame(replay, caption);
  const score = element("span", { class: "score" });
  const line = element("span", { class: "caption" }, name ? swatch(name) : null, element("span", {}, caption));
  const button = press
    ? element("button", { class: "picture", type: "button", "aria-haspopup": "dialog", title: `Look at ${name} in large`, onclick: press }, canvas, line, score)
    : element("div", { class: "picture" }, canvas, line, score);
  if (name) button.style.setProperty("--arm", color(name));
  return { name, figure: element("figure", {}, button), button, canvas, score };
}

function drawFigures(replay, names) {
  const fixed = [picture(replay, null, "truth"), picture(replay, null, "truth, decoded")];
  const figures = names.map((name) => picture(replay, name, name, () => {
    focusArm(name);
    enlargeArm(name);
  }));
  byId("pictures").replaceChildren(...fixed.map((one) => one.figure), ...figures.map((one) => one.figure));
  fixed[0].score.textContent = "as recorded";
  fixed[1].score.textContent = "the ceiling";
  return { fixed, figures };
}

function drawStrip() {
  const { replay, names } = view;
  const series = names.filter((name) => state.shown.has(name)).map((name) => ({
    name, text: name, color: color(name), dash: dash(name), width: name === state.arm ? 3 : 1.5,
    points: replay.arms[name].map((step, index) => [index, step.psnr]),
  })).filter((one) => one.points.some(([, value]) => finite(value)));
  view.strip = null;
  if (series.length === 0) {
    byId("strip").observer?.disconnect();
    byId("strip").replaceChildren(element("p", { class: "empty" }, "No arm is shown: choose some above."));
    return;
  }
  view.strip = lineChart(byId("strip"), {
    series, label: "PSNR of each frame by arm", height: 200, digits: 2, unit: "dB", x: [0, Math.max(1, replay.frames.length - 1)],
    xTicks: false, xText: (at) => `step ${Math.round(at) + 1}`, seek: (at) => seek(Math.round(at)),
  });
}

/** Everything about the arm that was chosen. */
function drawFocus() {
  const { replay } = view;
  byId("focus").value = state.arm;
  const cue = keyCue(replay, state.arm);
  const weights = cue === null ? [] : cueWeights(replay, state.arm, cue);
  const weighed = weights.some(finite);
  const range = weighed ? weightRange(weights) : null;
  byId("map-legend").replaceChildren(...(weighed ? [weightLegend(cue, range)] : []));
  const back = weighed ? `In color: the way back, by how much ${state.arm} trusts ${cue} there.` : "Dashed: the way back.";
  byId("map-note").textContent = `Wide line: the way out, which is remembered. ${back} Dot without a number: the view to predict. Numbered: what ${state.arm} recalled and where it looks; small: the other arms shown.`;
  view.map = null;
  if (replay.path.length === 0) {
    byId("map-note").textContent = "The dataset has no poses, so there is no map.";
    byId("map").replaceChildren();
  } else responsive(byId("map"), (width) => {
    view.map = new PathMap(element("div"), replay, width);
    if (weighed) view.map.weigh(cue, weights, range, seek);
    view.map.update(state.step, state.arm, shownArms(), chooseMemory);
    return view.map.svg;
  });
  view.charts = drawTimelines(replay, state.arm, (at) => seek(Math.round(at)));
  seek(state.step);
}

const shownArms = () => view.names.filter((name) => state.shown.has(name));

function focusArm(name) {
  state.arm = name;
  view.marked = null;
  drawStrip();
  drawFocus();
}

/** A memory was chosen on the map: its arm comes into focus and its card is marked. */
function chooseMemory(name, memory) {
  if (name !== state.arm) focusArm(name);
  view.marked = memory;
  drawReasons(view.replay, state.arm, state.step, memory);
  byId("recalled").querySelector(".marked")?.scrollIntoView({ block: "nearest" });
}

const stepText = () => `step ${state.step + 1} of ${view.replay.frames.length} · frame ${view.replay.frames[state.step]}`;

/** Shows one step everywhere. */
function seek(step) {
  const { replay } = view;
  const last = replay.frames.length - 1;
  const target = Math.max(0, Math.min(last, step));
  if (target !== state.step) view.marked = null;
  state.step = target;
  const scrubber = byId("scrubber");
  scrubber.value = target;
  const text = stepText();
  scrubber.setAttribute("aria-valuetext", text);
  byId("step").textContent = text;
  const [truth, decoded] = view.figures.fixed;
  paint(truth.canvas, replay.truth[target]);
  paint(decoded.canvas, replay.decoded[target]);
  for (const { name, figure, button, canvas, score } of view.figures.figures) {
    figure.hidden = !state.shown.has(name);
    if (figure.hidden) continue;
    const { picture: id, psnr } = replay.arms[name][target];
    button.setAttribute("aria-current", String(name === state.arm));
    score.textContent = id === replay.decoded[target] ? "identical" : `${number(psnr, 1)} dB`;
    paint(canvas, id, state.overlay ? replay.decoded[target] : undefined);
  }
  view.strip?.cursor(target);
  view.charts.forEach((chart) => chart.cursor(target));
  view.map?.update(target, state.arm, shownArms(), chooseMemory);
  drawReasons(replay, state.arm, target, view.marked);
  if (dialog.open && enlargedArm !== null) drawEnlarged();
  noteAddress();
  // The next pictures are decoded before they are needed.
  for (const name of shownArms()) image(replay.arms[name][Math.min(last, target + 1)].picture);
}
