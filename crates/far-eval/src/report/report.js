// The page as a whole: runs, legend, training curves.

function drawHeader(run) {
  byId("title").textContent = data.title;
  byId("facts").replaceChildren(...run.facts.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value))));
  byId("footer").textContent = `Made by far ${data.version}.`;
  byId("config-section").hidden = run.config === null;
  byId("config").textContent = run.config ?? "";
}

/** Arms of a run, in the order of the legend. */
function runArms(run) {
  const names = new Set([...run.headline.rows.map((row) => row.arm), ...[...run.replays, ...run.probes].flatMap((kept) => Object.keys(kept.arms))]);
  return data.arms.filter((arm) => names.has(arm.name));
}

function drawLegend(run) {
  const buttons = runArms(run).map((arm) => element("button", {
    type: "button", title: arm.note, "data-arm": arm.name, "aria-pressed": String(state.shown.has(arm.name)),
    onclick: (event) => {
      if (!state.shown.delete(arm.name)) state.shown.add(arm.name);
      event.currentTarget.setAttribute("aria-pressed", String(state.shown.has(arm.name)));
      drawCurves(currentRun());
      drawStates(currentRun());
      drawProbes(currentRun());
      if (view) {
        drawStrip();
        seek(state.step);
      }
    },
  }, swatch(arm.name), arm.name));
  byId("legend").replaceChildren(...buttons);
  byId("legend").hidden = buttons.length === 0;
}

/** The chart a number belongs to: weights of cues and parts of a list share one. */
function panelOf(name) {
  const [, parent, leaf] = name.match(/^(.*)\.([^.]+)$/) ?? [null, "", name];
  return parent && (/^\d+$/.test(leaf) || /(^|\.)(weights|lambda)$/.test(parent)) ? [parent, leaf] : [name, ""];
}

/** One chart per number that training wrote down; other runs stand behind this one in gray. */
function drawTraining(run) {
  const names = Object.keys(run.training.series);
  byId("training-section").hidden = names.length === 0;
  const panels = new Map();
  for (const name of names) {
    const [title, leaf] = panelOf(name);
    panels.set(title, [...(panels.get(title) ?? []), { name, leaf }]);
  }
  const order = (title) => ["", "evaluation", "retriever"].indexOf(title.includes(".") ? title.split(".")[0] : "") + 4 * Number(title !== "loss");
  const titles = [...panels.keys()].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
  const others = data.runs.filter((other) => other !== run);
  const parts = titles.map((title) => trainingPanel(run, others, title, panels.get(title)));
  const notes = [];
  if (run.training.skipped > 0) notes.push(`${run.training.skipped} unreadable lines of metrics.jsonl were left out.`);
  if (others.length > 0) notes.push("Gray: the other runs.");
  byId("training").replaceChildren(
    element("div", { class: "multiples" }, ...parts.map(({ part }) => part)),
    element("p", { class: "note" }, ["Over training steps; at the right of each name its last value.", ...notes].join(" ")));
  for (const { box, options } of parts) lineChart(box, options);
}

/** A small chart with the name and the last value of what it shows. */
function trainingPanel(run, others, title, fields) {
  const line = (each, { name, leaf }, tone, width) => ({
    name, text: leaf || each.name, color: tone, width,
    points: each.training.series[name].step.map((step, index) => [step, each.training.series[name].value[index]]),
  });
  const behind = fields.flatMap((field) => others.filter((other) => field.name in other.training.series).map((other) => line(other, field, "var(--c10)", 1.25)));
  const series = [...behind, ...fields.map((field, index) => line(run, field, fields.length > 1 ? CUE_COLORS[index % CUE_COLORS.length] : "var(--accent)", 2))];
  const last = fields.length > 1 ? "" : brief(run.training.series[fields[0].name].value.filter(finite).at(-1));
  const box = element("div", {});
  const part = element("div", {}, element("h4", {}, element("span", {}, title.replace(".values.", ".").replaceAll("_", " ")), element("span", {}, last)), box);
  const xText = (at) => (at >= 10000 ? `${number(at / 1000, 0)}k` : number(at, 0));
  return { part, box, options: { series, label: `${title} over training steps`, height: 130, labels: fields.length > 1 && others.length === 0, format: brief, xText } };
}

/** The arm that stands for a run in the table of runs. */
function leadArm(run) {
  return run.headline.learned ?? run.headline.rows.find((row) => !isControl(row.arm))?.arm;
}

function drawOverview() {
  byId("overview").hidden = data.runs.length < 2;
  if (data.runs.length < 2) return;
  const metrics = [];
  for (const run of data.runs) {
    for (const metric of run.headline.metrics) if (!metrics.some((known) => known.id === metric.id)) metrics.push(metric);
  }
  const leads = data.runs.map((run) => ({ run, row: run.headline.rows.find((row) => row.arm === leadArm(run)) }));
  const cellOf = ({ run, row }, metric) => row?.cells[run.headline.metrics.findIndex((own) => own.id === metric.id)];
  const ranges = metrics.map((metric) => extent(leads.map((lead) => cellOf(lead, metric)?.value).filter(Boolean).flatMap((value) => [value.lo, value.hi])));
  const body = leads.map((lead, index) => element("tr", { class: index === state.run ? "focus" : null },
    element("th", { scope: "row" }, element("span", { class: "name" }, lead.run.name), element("small", {}, lead.row?.arm ?? "")),
    ...metrics.map((metric, column) => {
      const cell = cellOf(lead, metric);
      return valueCell(cell && { ...cell, best: false }, ranges[column], lead.row?.arm);
    })));
  const head = element("tr", {}, element("th", { scope: "col" }, "Run"), ...metrics.map(metricHead));
  byId("overview-table").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function chooseRun(index) {
  stop();
  state.run = index;
  const run = currentRun();
  const own = runArms(run);
  // Controls are many lines that few ask for: they come when they are called.
  state.shown = new Set(own.filter((arm) => arm.role !== "control" || arm.name === "oracle").map((arm) => arm.name));
  if (state.shown.size === 0) own.forEach((arm) => state.shown.add(arm.name));
  drawHeader(run);
  drawOverview();
  drawLegend(run);
  drawSummary(run);
  drawHeadline(run);
  drawStates(run);
  drawPaired(run);
  drawCurves(run);
  drawReplays();
  drawProbes(run);
  drawTraining(run);
}

listenToPlayer();
choice(byId("runs"), data.runs.map((run, index) => [index, run.name]), 0, chooseRun);
if (data.runs.length > 0) chooseRun(0);
