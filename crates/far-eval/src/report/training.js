// Training curves: of the run, of each arm that learned in it, and of each arm that was trained by itself.

/** Every training that a run's page has, each with a name and a color of its own. */
function trainings(run) {
  const own = [];
  const add = (name, series, tone) => {
    if (Object.keys(series).length > 0) own.push({ name, series, color: tone });
  };
  add(run.name, run.training.series, "var(--accent)");
  for (const [arm, series] of Object.entries(run.training.arms)) add(arm, series, color(arm));
  for (const part of run.parts) {
    // An arm that learned alone in its part is that part's line.
    const learned = Object.values(part.training.arms);
    const series = Object.assign({}, part.training.series, ...(learned.length === 1 ? learned : []));
    add(part.name, series, arms.has(part.name) ? color(part.name) : "var(--c12)");
    if (learned.length > 1) for (const [arm, each] of Object.entries(part.training.arms)) add(`${part.name}: ${arm}`, each, color(arm));
  }
  return own;
}

/** The chart a number belongs to: weights of cues and parts of a list share one. */
function panelOf(name) {
  const [, parent, leaf] = name.match(/^(.*)\.([^.]+)$/) ?? [null, "", name];
  return parent && (/^\d+$/.test(leaf) || /(^|\.)(weights|lambda)$/.test(parent)) ? [parent, leaf] : [name, ""];
}

/** A number of the log as people call it; metrics have the same name everywhere. */
function panelTitle(name) {
  return data.training_names[name] ?? name.replaceAll(".", " · ").replaceAll("_", " ");
}

const training = (source, name) => source.series[name].step.map((step, index) => [step, source.series[name].value[index]]);

/** What each chart shows: one number of all trainings, or the parts of one number of a single training. */
function trainingPanels(sources) {
  const panels = new Map();
  for (const source of sources) {
    for (const name of Object.keys(source.series)) {
      const [title, leaf] = panelOf(name);
      const key = leaf ? `${title}\n${source.name}` : title;
      const panel = panels.get(key) ?? { title, owner: leaf && sources.length > 1 ? source.name : "", lines: [] };
      panel.lines.push({ source, name, leaf });
      panels.set(key, panel);
    }
  }
  const order = ({ title }) => ["", "evaluation", "retriever"].indexOf(title.includes(".") ? title.split(".")[0] : "") + 4 * Number(title !== "loss");
  return [...panels.values()].sort((a, b) => order(a) - order(b) || a.title.localeCompare(b.title));
}

/** A small chart with the name and, if it has one line, the last value of what it shows. */
function trainingPanel({ title, owner, lines }, others) {
  const behind = others.filter((other) => title in other.training.series).map((other) => ({
    name: other.name, text: other.name, color: "var(--c10)", width: 1.25, points: training(other.training, title),
  }));
  const own = lines.map(({ source, name, leaf }, index) => ({
    name: source.name, text: leaf || source.name, width: 2, points: training(source, name),
    color: leaf ? CUE_COLORS[index % CUE_COLORS.length] : source.color,
  }));
  const last = own.length > 1 ? "" : brief(own[0].points.map((point) => point[1]).filter(finite).at(-1));
  const name = owner ? `${panelTitle(title)} · ${owner}` : panelTitle(title);
  const box = element("div", {});
  const part = element("div", {}, element("h3", {}, element("span", {}, name), element("span", {}, last)), box);
  const xText = (at) => (at >= 10000 ? `${number(at / 1000, 0)}k` : number(at, 0));
  const labels = own.length > 1 && own.every((one, index) => lines[index].leaf);
  return { part, box, options: { series: [...behind, ...own], label: `${name} over training steps`, height: 130, labels, format: brief, xText } };
}

/** One chart per number that training wrote down; other runs stand behind this one in gray. */
function drawTraining(run) {
  const sources = trainings(run);
  byId("training-section").hidden = sources.length === 0;
  const others = data.runs.filter((other) => other !== run);
  const parts = trainingPanels(sources).map((panel) => trainingPanel(panel, others));
  const notes = ["Over training steps; at the right of a name its last value."];
  const skipped = [run, ...run.parts].reduce((sum, { training: log }) => sum + log.skipped, 0);
  if (skipped > 0) notes.push(`${skipped} unreadable lines of metrics.jsonl were left out.`);
  if (others.some((other) => Object.keys(other.training.series).length > 0)) notes.push("Gray: the other runs.");
  const key = sources.map((source) => {
    const mark = shape("svg", { class: "swatch", viewBox: "0 0 16 10", "aria-hidden": "true" }, shape("line", { x1: 0, x2: 16, y1: 5, y2: 5, "stroke-width": 4 }));
    mark.style.stroke = source.color;
    return element("li", {}, mark, source.name);
  });
  byId("training").replaceChildren(
    ...(sources.length > 1 ? [element("ul", { class: "key" }, ...key)] : []),
    element("div", { class: "multiples" }, ...parts.map(({ part }) => part)),
    element("p", { class: "note" }, notes.join(" ")));
  for (const { box, options } of parts) lineChart(box, options);
}

/** Every point of every curve. */
function trainingRows(run) {
  const points = trainings(run).flatMap((source) => Object.keys(source.series).flatMap((name) =>
    training(source, name).map(([step, value]) => [source.name, name, plain(step), plain(value)])));
  return [["training", "number", "step", "value"], ...points];
}
