// The map: the way out and back, where the predicted view is, and what each arm recalled.

/** How a memory lies relative to a view of the same path; without poses, only when it was seen. */
function relation(replay, memory, goal) {
  if (replay.path.length === 0) return { ago: goal - memory };
  const [east, north, heading] = replay.path[memory];
  const [goalEast, goalNorth, goalHeading] = replay.path[goal];
  const turn = ((heading - goalHeading) * 180) / Math.PI;
  return {
    distance: Math.hypot(east - goalEast, north - goalNorth),
    turn: ((((turn + 180) % 360) + 360) % 360) - 180,
    ago: goal - memory,
  };
}

/** A relation in words: where from, and where it looks. */
function relationText({ distance, turn, ago }) {
  const frames = Math.abs(ago) === 1 ? "1 frame" : `${Math.abs(ago)} frames`;
  const when = ago >= 0 ? `${frames} ago` : `${frames} ahead`;
  if (distance === undefined) return when;
  const degrees = Math.round(Math.abs(turn));
  const side = degrees < 3 ? "same heading" : `turned ${degrees}° ${turn > 0 ? "left" : "right"}`;
  return `${when} · ${number(distance, 1)} m away · ${side}`;
}

/** Where a step starts: the first frame of the way back is given. */
const presentFrame = (replay, step) => (step === 0 ? replay.boundary : replay.frames[step - 1]);

/** The key cue that counts most beside poses and times; null when an arm weighs none, as rules do with fixed weights. */
function keyCue(replay, name) {
  const sums = new Map();
  for (const [cue, weight] of (replay.arms[name] ?? []).flatMap((step) => step.weights)) {
    sums.set(cue, (sums.get(cue) ?? 0) + (finite(weight) ? weight : 0));
  }
  const keys = [...sums].filter(([cue]) => cue !== "meta").sort((a, b) => b[1] - a[1]);
  return sums.has("meta") ? keys[0]?.[0] ?? null : null;
}

/** The weight of a cue at every step. */
function cueWeights(replay, name, cue) {
  return replay.arms[name].map((step) => step.weights.find(([each]) => each === cue)?.[1]);
}

/** From little weight to much, on light and on dark alike. */
const WEIGHT_COLORS = [[84, 96, 200], [31, 161, 135], [236, 190, 32]];

function weightColor(share) {
  const at = Math.min(1, Math.max(0, share)) * (WEIGHT_COLORS.length - 1);
  const below = Math.min(WEIGHT_COLORS.length - 2, Math.floor(at));
  const mix = WEIGHT_COLORS[below].map((from, channel) => Math.round(from + (at - below) * (WEIGHT_COLORS[below + 1][channel] - from)));
  return `rgb(${mix.join(" ")})`;
}

/** Tenths around some weights. */
function weightRange(weights) {
  const known = weights.filter(finite);
  const low = Math.floor(Math.min(...known) * 10 + 1e-6) / 10;
  return [low, Math.max(low + 0.1, Math.ceil(Math.max(...known) * 10 - 1e-6) / 10)];
}

/** What the colors of the way back mean. */
function weightLegend(cue, [low, high]) {
  const bar = element("span", { class: "ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(weightColor).join(", ")})`;
  return element("p", { class: "weight-legend" }, `Weight λ of ${cue}: ${number(low, 1)}`, bar, number(high, 1));
}

/** A map of fixed scale around a clip's path; east is right, north is up. */
class PathMap {
  constructor(container, replay, width) {
    this.replay = replay;
    const easts = replay.path.map((pose) => pose[0]);
    const norths = replay.path.map((pose) => pose[1]);
    const [west, east] = [Math.min(...easts), Math.max(...easts)];
    const [south, north] = [Math.min(...norths), Math.max(...norths)];
    const margin = 30;
    const height = Math.round(Math.min(width * 1.05, Math.max(width * 0.5, (width * (north - south + 1)) / (east - west + 1))));
    // Room below the path, so that the bar of meters does not run through the word "start".
    const below = 22;
    const scale = Math.min((width - 2 * margin) / (east - west || 1), (height - 2 * margin) / (north - south || 1), 200);
    this.x = (value) => width / 2 + (value - (west + east) / 2) * scale;
    this.y = (value) => height / 2 - (value - (south + north) / 2) * scale;
    this.svg = drawing(width, height + below, "Map of the way out, the way back and the recalled memories");
    this.svg.setAttribute("role", "group");
    const line = (from, to) => replay.path.slice(from, to).map(([e, n]) => `${this.x(e).toFixed(1)},${this.y(n).toFixed(1)}`).join(" ");
    this.svg.append(
      shape("polyline", { class: "out", points: line(0, replay.boundary) }),
      shape("polyline", { class: "back", points: line(Math.max(0, replay.boundary - 1)) }),
      shape("text", { x: this.x(replay.path[0][0]), y: this.y(replay.path[0][1]) + 24, "text-anchor": "middle" }, "start"),
      ...this.scaleBar(scale, height + below));
    this.weights = shape("g", { class: "weights" });
    this.marks = shape("g", {});
    this.svg.append(this.weights, this.marks);
    container.replaceChildren(this.svg);
  }

  /** Colors each step of the way back by the weight of a cue. */
  weigh(cue, weights, [low, high], seek) {
    const { path } = this.replay;
    this.weights.replaceChildren(...weights.map((weight, step) => {
      const ends = [presentFrame(this.replay, step), this.replay.frames[step]];
      const points = path.slice(Math.min(...ends), Math.max(...ends) + 1).map(([e, n]) => `${this.x(e).toFixed(1)},${this.y(n).toFixed(1)}`);
      const line = shape("polyline", { points: points.join(" ") }, shape("title", {}, `Step ${step + 1}: λ of ${cue} is ${number(weight, 2)}`));
      line.style.stroke = finite(weight) ? weightColor((weight - low) / (high - low)) : "none";
      line.addEventListener("click", () => seek(step));
      return line;
    }));
  }

  /** A bar of a round number of meters. */
  scaleBar(scale, height) {
    const meters = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => size * scale >= 40) ?? 1000;
    const [x, y] = [14, height - 14];
    return [
      shape("line", { class: "zero", x1: x, x2: x + meters * scale, y1: y, y2: y, "stroke-width": 2 }),
      shape("text", { x: x + meters * scale + 6, y: y + 4 }, `${meters} m`),
    ];
  }

  /** A fan that opens to where a pose looks. */
  fan(pose, length, spread) {
    const [east, north, heading] = pose;
    const [x, y] = [this.x(east), this.y(north)];
    const corner = (angle) => `${(x + length * Math.cos(angle)).toFixed(1)},${(y - length * Math.sin(angle)).toFixed(1)}`;
    return `M${x.toFixed(1)},${y.toFixed(1)}L${corner(heading + spread)}A${length},${length} 0 0 1 ${corner(heading - spread)}Z`;
  }

  /** Marks the predicted view and the memories of the arms, those of the focused arm on top. */
  update(step, focused, shown, choose) {
    const { replay } = this;
    const goal = replay.frames[step];
    this.marks.replaceChildren();
    for (const name of shown.filter((arm) => arm !== focused)) {
      for (const recalled of replay.arms[name]?.[step]?.recalled ?? []) this.marks.append(this.memory(name, recalled, goal, null, choose));
    }
    const [x, y] = [this.x(replay.path[goal][0]), this.y(replay.path[goal][1])];
    const own = replay.arms[focused]?.[step]?.recalled ?? [];
    for (const recalled of own) {
      const [east, north] = replay.path[recalled.frame];
      const link = shape("line", { x1: x, y1: y, x2: this.x(east), y2: this.y(north), "stroke-width": 1, "stroke-dasharray": "2 3" });
      link.style.stroke = color(focused);
      this.marks.append(link);
    }
    const view = shape("path", { d: this.fan(replay.path[goal], 26, 0.5), opacity: 0.28 });
    view.style.fill = "var(--ink)";
    this.marks.append(view, shape("circle", { class: "here", cx: x, cy: y, r: 6 }));
    own.map((recalled, rank) => this.memory(focused, recalled, goal, rank, choose)).reverse().forEach((mark) => this.marks.append(mark));
  }

  memory(name, recalled, goal, rank, choose) {
    const { replay } = this;
    const pose = replay.path[recalled.frame];
    const [x, y] = [this.x(pose[0]), this.y(pose[1])];
    const text = relationText(relation(replay, recalled.frame, goal));
    const own = rank !== null;
    const label = `${own ? `${rank + 1}: ` : ""}${name} recalled frame ${recalled.frame}, ${text}`;
    // The small marks of other arms are for the eye; their arms can be chosen and then read.
    const mark = shape("g", own ? { class: "memory", tabindex: "0", role: "button", "aria-label": label } : { class: "memory", "aria-hidden": "true" });
    const fan = shape("path", { d: this.fan(pose, own ? 22 : 13, 0.45), opacity: own ? 0.4 : 0.3 });
    const dot = shape("circle", { cx: x, cy: y, r: own ? 8 : 4, "stroke-width": 1.5 });
    fan.style.fill = color(name);
    dot.style.fill = color(name);
    dot.style.stroke = "var(--panel)";
    mark.append(fan, dot);
    if (own) mark.append(shape("text", { class: "rank", x, y: y + 3.5 }, String(rank + 1)));
    const show = () => {
      const box = dot.getBoundingClientRect();
      const canvas = plainFrame(replay, label);
      paint(canvas, replay.memories[recalled.frame]);
      showTip(box.right, box.top, canvas, element("div", { class: "row" }, swatch(name), name, element("b", {}, `frame ${recalled.frame}`)), element("div", { class: "muted" }, text));
    };
    mark.addEventListener("pointerenter", show);
    mark.addEventListener("pointerleave", hideTip);
    mark.addEventListener("focus", show);
    mark.addEventListener("blur", hideTip);
    mark.addEventListener("click", () => choose(name, recalled.frame));
    mark.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(name, recalled.frame);
    });
    return mark;
  }
}
