// Why a memory was recalled: its cues, weights, score and measured utility.

/** One cue: standardized score times weight as a bar from zero. */
function cueRow(cue, weight, [raw, standardized], reach) {
  const product = finite(standardized) && finite(weight) ? standardized * weight : null;
  const svg = shape("svg", { viewBox: "-100 0 200 12", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(shape("line", { class: "zero", x1: 0, x2: 0, y1: 0, y2: 12, "vector-effect": "non-scaling-stroke" }));
  if (product !== null) {
    const length = (100 * Math.abs(product)) / (reach || 1);
    const bar = shape("rect", { x: product < 0 ? -length : 0, y: 2, width: length, height: 8, rx: 1 });
    bar.style.fill = product < 0 ? "var(--bad)" : "var(--accent)";
    svg.append(bar);
  }
  const title = `raw score ${brief(raw)}, standardized ${number(standardized, 2)}, weight ${number(weight, 2)}`;
  const score = raw === standardized ? signed(standardized, 2) : `${signed(standardized, 1)}σ`;
  const sum = product === null ? "no score" : `${score} × ${number(weight, 2)} = ${signed(product, 2)}`;
  return element("div", { class: "cue", title }, element("span", {}, cue), svg, element("span", { class: "sum" }, sum));
}

function products(step) {
  return step.recalled.flatMap((recalled) => recalled.cues.map(([, standardized], index) => Math.abs(standardized * (step.weights[index]?.[1] ?? 0)))).filter(finite);
}

/** What was heard in the second before a frame; null without sound. */
function hearing(replay, at) {
  const id = replay.sounds[at];
  if (id === undefined) return null;
  const label = `Sound of the second before frame ${at}: left ear above, right ear below`;
  const canvas = element("canvas", { width: 60, height: 82, role: "img", "aria-label": label });
  paint(canvas, id);
  return element("div", { class: "sound", title: label }, canvas, element("span", { "aria-hidden": "true" }, "L"), element("span", { "aria-hidden": "true" }, "R"));
}

/** The present as the focused arm knows it: what it generated last, and what is heard for certain. */
function presentCard(replay, name, stepIndex) {
  const at = presentFrame(replay, stepIndex);
  const sound = hearing(replay, at);
  if (!sound) return null;
  const before = replay.arms[name]?.[stepIndex - 1];
  const canvas = before ? frame(replay, `The present as ${name} generated it`) : null;
  if (canvas) paint(canvas, before.picture);
  return element("div", { class: "card heard present" }, element("div", { class: "views" }, canvas, sound),
    element("div", {},
      element("h4", {}, element("span", {}, `Now: frame ${at}`)),
      element("p", {}, before ? `Seen as ${name} generated it, heard as it was.` : "The last frame that is given."),
      element("p", {}, "Sound: the last second, low pitches below, L left ear, R right ear.")));
}

/** A recalled frame with its reasons. */
function reasonCard(replay, step, recalled, rank, goal, reach, marked) {
  const canvas = frame(replay, `Recalled frame ${recalled.frame}`);
  paint(canvas, replay.memories[recalled.frame]);
  const facts = [finite(recalled.score) ? `score ${brief(recalled.score)}` : null, finite(recalled.utility) ? `utility ${signed(recalled.utility, Math.abs(recalled.utility) < 0.1 ? 3 : 2)} nats` : null];
  const cues = recalled.cues.map((scores, index) => cueRow(step.weights[index]?.[0] ?? `cue ${index + 1}`, step.weights[index]?.[1], scores, reach));
  const sound = hearing(replay, recalled.frame);
  return element("div", { class: `card${sound ? " heard" : ""}${marked ? " marked" : ""}`, "data-frame": recalled.frame },
    sound ? element("div", { class: "views" }, canvas, sound) : canvas,
    element("div", {},
      element("h4", {}, element("span", {}, `${rank + 1}. Frame ${recalled.frame}`), element("span", { class: "muted" }, facts.filter(Boolean).join(" · "))),
      element("p", {}, relationText(relation(replay, recalled.frame, goal))),
      recalled.repeats && recalled.repeats[1] >= 0.0005 ? element("p", { class: "muted" }, `Repeats frame ${recalled.repeats[0]}: −${brief(recalled.repeats[1])} in its score.`) : null,
      ...cues));
}

/** All memories that the focused arm recalled at a step. */
function drawReasons(replay, name, stepIndex, marked) {
  const goal = replay.frames[stepIndex];
  byId("recall-title").textContent = `What ${name} recalled to predict frame ${goal}`;
  const step = replay.arms[name]?.[stepIndex];
  const present = presentCard(replay, name, stepIndex);
  const empty = step ? emptySlots(replay, step, stepIndex) : [];
  if (!step || (step.recalled.length === 0 && (isControl(name) || empty.length === 0))) {
    const note = isControl(name) ? arms.get(name).note : null;
    byId("recalled").replaceChildren(...[present, element("p", { class: "empty" }, note ? `Nothing was recalled: ${note}.` : "Nothing was recalled.")].filter(Boolean));
    return;
  }
  const reach = Math.max(...products(step), 0.5);
  const cards = step.recalled.map((recalled, rank) => reasonCard(replay, step, recalled, rank, goal, reach, recalled.frame === marked));
  const pairs = step.recalled.flatMap((recalled) => recalled.cues);
  const kind = pairs.every(([raw, standardized]) => raw === standardized) ? "score" : "standardized score (σ from the mean of the pool)";
  const note = pairs.length > 0 ? element("p", { class: "note" }, `Bars: ${kind} × the weight λ of its cue; together they make the score.`) : null;
  byId("recalled").replaceChildren(...[present, ...cards, ...empty, note].filter(Boolean));
}

/** A card for every slot that other arms fill at this step and this one leaves empty. */
function emptySlots(replay, step, stepIndex) {
  const slots = Math.max(...Object.values(replay.arms).map((steps) => steps[stepIndex]?.recalled.length ?? 0));
  return Array.from({ length: Math.max(0, slots - step.recalled.length) }, (_, place) =>
    element("div", { class: "card empty" }, element("h4", {}, element("span", {}, `${step.recalled.length + place + 1}. Empty`)),
      element("p", { class: "muted" }, "No memory that was left was worth recalling.")));
}

/** Colors of cues; not those of arms, which they are not. */
const CUE_COLORS = ["var(--accent)", "var(--c3)", "var(--c4)", "var(--c2)", "var(--c7)"];

/** Weights and scores over the steps of a clip; returns their charts. */
function drawTimelines(replay, name, seek) {
  const steps = replay.arms[name] ?? [];
  const cues = [...new Set(steps.flatMap((step) => step.weights.map(([cue]) => cue)))];
  const ranks = Math.max(0, ...steps.map((step) => step.recalled.length));
  const x = [0, Math.max(1, steps.length - 1)];
  const xText = (at) => `step ${Math.round(at) + 1}`;
  const common = { height: 170, x, xText, xTicks: false, seek };
  const weights = cues.map((cue, index) => ({
    name: cue, text: cue, color: CUE_COLORS[index % CUE_COLORS.length],
    points: steps.map((step, at) => [at, step.weights.find(([each]) => each === cue)?.[1]]),
  }));
  const scores = Array.from({ length: ranks }, (_, rank) => ({
    name: String(rank), text: `${rank + 1}.`, color: color(name), width: rank === 0 ? 2.5 : 1.25, dash: rank === 0 ? null : "4 3",
    points: steps.map((step, at) => [at, step.recalled[rank]?.score]),
  })).filter((one) => one.points.some(([, value]) => finite(value)));
  const draw = (id, series, options, missing) => {
    if (series.length > 0) return lineChart(byId(id), { ...common, series, ...options });
    byId(id).observer?.disconnect();
    byId(id).replaceChildren(element("p", { class: "empty" }, missing));
    return null;
  };
  const known = weights.flatMap((one) => one.points.map((point) => point[1]).filter(finite));
  const range = [Math.min(0, ...known), Math.max(1, ...known)];
  return [
    draw("weights", weights, { range, label: `Weight of each cue for ${name}` }, `${name} weighs no cues.`),
    draw("scores", scores, { label: `Scores of recalled memories for ${name}`, format: brief }, `${name} has no scores.`),
  ].filter(Boolean);
}
