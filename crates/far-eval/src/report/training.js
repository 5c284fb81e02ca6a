// Training curves: of the run, of each arm that learned in it, and of each arm that was trained by itself.

/** Every training that a run's page has, each with a color of its own. */
function trainings(run) {
  const tone = ({ arm }) => (arms.has(arm) ? color(arm) : run.trainings.length > 1 ? "var(--c12)" : "var(--accent)");
  return run.trainings.map((each) => ({ ...each, color: tone(each) }));
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

const points = (source, name) => source.series[name].step.map((step, index) => [step, source.series[name].value[index]]);

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
  const behind = others.filter((other) => title in other.series).map((other) => ({
    name: other.name, text: other.name, color: "var(--c10)", width: 1.25, points: points(other, title),
  }));
  const own = lines.map(({ source, name, leaf }, index) => ({
    name: source.name, text: leaf || source.name, width: 2, points: points(source, name),
    color: leaf ? CUE_COLORS[index % CUE_COLORS.length] : source.color,
  }));
  const last = own.length > 1 ? "" : brief(own[0].points.map((point) => point[1]).filter(finite).at(-1));
  const name = owner ? `${panelTitle(title)} · ${owner}` : panelTitle(title);
  const box = element("div", {});
  const part = element("div", {}, element("h3", {}, element("span", {}, name), element("span", {}, last)), box);
  const xText = (at) => (at >= 10000 ? `${number(at / 1000, 0)}k` : number(at, 0));
  const labels = lines.every((line) => line.leaf);
  return { part, box, options: { series: [...behind, ...own], label: `${name} over training steps`, height: 130, labels, format: brief, xText } };
}

/** One chart per number that training wrote down; other runs stand behind this one in gray. */
function drawTraining(run) {
  const sources = trainings(run);
  byId("training-section").hidden = sources.length === 0;
  const others = data.runs.filter((other) => other !== run).flatMap((other) => other.trainings);
  const parts = trainingPanels(sources).map((panel) => trainingPanel(panel, others));
  const notes = ["Over training steps; at the right of a name its last value."];
  if (run.skipped > 0) notes.push(`${run.skipped} unreadable lines of metrics.jsonl were left out.`);
  if (others.length > 0) notes.push("Gray: the other runs.");
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
  const rows = run.trainings.flatMap((source) => Object.keys(source.series).flatMap((name) =>
    points(source, name).map(([step, value]) => [source.name, name, plain(step), plain(value)])));
  return [["training", "number", "step", "value"], ...rows];
}
