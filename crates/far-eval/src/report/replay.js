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
  const canvas = frame(replay, caption);
  const score = element("span", { class: "score" });
  const line = element("span", { class: "caption" }, name ? swatch(name) : null, element("span", {}, caption));
  const button = element(press ? "button" : "div", { class: "picture", type: press ? "button" : null, onclick: press }, canvas, line, score);
  if (name) button.style.setProperty("--arm", color(name));
  return { name, figure: element("figure", {}, button), button, canvas, score };
}

function drawFigures(replay, names) {
  const fixed = [picture(replay, null, "truth"), picture(replay, null, "truth, decoded")];
  const figures = names.map((name) => picture(replay, name, name, () => focusArm(name)));
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
  responsive(byId("map"), (width) => {
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

/** Shows one step everywhere. */
function seek(step) {
  const { replay } = view;
  const last = replay.frames.length - 1;
  const target = Math.max(0, Math.min(last, step));
  if (target !== state.step) view.marked = null;
  state.step = target;
  const scrubber = byId("scrubber");
  scrubber.value = target;
  const text = `Step ${target + 1} of ${last + 1} · frame ${replay.frames[target]}`;
  scrubber.setAttribute("aria-valuetext", text);
  byId("step").textContent = text;
  const [truth, decoded] = view.figures.fixed;
  paint(truth.canvas, replay.truth[target]);
  paint(decoded.canvas, replay.decoded[target]);
  for (const { name, figure, button, canvas, score } of view.figures.figures) {
    figure.hidden = !state.shown.has(name);
    if (figure.hidden) continue;
    const { picture: id, psnr } = replay.arms[name][target];
    button.setAttribute("aria-pressed", String(name === state.arm));
    score.textContent = id === replay.decoded[target] ? "identical" : `${number(psnr, 1)} dB`;
    paint(canvas, id, state.overlay ? replay.decoded[target] : undefined);
  }
  view.strip?.cursor(target);
  view.charts.forEach((chart) => chart.cursor(target));
  view.map?.update(target, state.arm, shownArms(), chooseMemory);
  drawReasons(replay, state.arm, target, view.marked);
  // The next pictures are decoded before they are needed.
  for (const name of shownArms()) image(replay.arms[name][Math.min(last, target + 1)].picture);
}

function stop() {
  clearInterval(state.playing);
  state.playing = null;
  byId("play").textContent = "▶";
  byId("play").setAttribute("aria-label", "Play");
}

function play() {
  if (state.playing !== null) return stop();
  const last = view.replay.frames.length - 1;
  if (state.step === last) seek(0);
  state.playing = setInterval(() => {
    if (state.step >= view.replay.frames.length - 1) stop();
    else seek(state.step + 1);
  }, 350);
  byId("play").textContent = "❚❚";
  byId("play").setAttribute("aria-label", "Pause");
  return undefined;
}

function toggleOverlay() {
  state.overlay = !state.overlay;
  byId("overlay").setAttribute("aria-pressed", String(state.overlay));
  byId("overlay").textContent = state.overlay ? "Show prediction" : "Show error";
  seek(state.step);
}

/** Arrow keys move the step from anywhere but from where they already mean something. */
function onKey(event) {
  if (!view || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, select, pre, .scroll")) return;
  const moves = { ArrowLeft: -1, ArrowRight: 1 };
  if (!(event.key in moves)) return;
  event.preventDefault();
  seek(state.step + moves[event.key]);
}

function listenToPlayer() {
  byId("scrubber").addEventListener("input", (event) => seek(Number(event.target.value)));
  byId("play").addEventListener("click", play);
  byId("overlay").addEventListener("click", toggleOverlay);
  byId("focus").addEventListener("change", (event) => focusArm(event.target.value));
  document.addEventListener("keydown", onKey);
}
