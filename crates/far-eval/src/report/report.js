// The page as a whole: runs, legend, how it was made, what the words mean.

function drawHeader(run) {
  byId("title").textContent = data.title;
  byId("facts").replaceChildren(...run.facts.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value))));
  byId("footer").textContent = `Made by far ${data.version}.`;
}

/** The command and every configuration that a run's results come from. */
function drawMaking(run) {
  byId("making-section").hidden = run.configs.length === 0 && !run.command;
  byId("command-part").hidden = !run.command;
  byId("command").textContent = run.command ?? "";
  byId("configs").replaceChildren(...run.configs.map(([name, config]) =>
    element("details", {}, element("summary", {}, name), element("pre", { tabindex: "0", role: "group", "aria-label": name }, config))));
}

/** What the metrics and arms of this page are, after the words that every page uses. */
function drawGlossary(run) {
  const terms = (list) => list.filter(([, note]) => note).map(([name, note]) => element("div", {}, element("dt", {}, name), element("dd", {}, ...prose(note))));
  byId("metric-terms").replaceChildren(...terms(run.headline.metrics.map(({ label, note }) => [label, note])));
  byId("arm-terms").replaceChildren(...terms(runArms(run).map(({ name, note }) => [name, note])));
}

/** Arms of a run, in the order of the legend. */
function runArms(run) {
  const names = new Set([...run.headline.rows.map((row) => row.arm), ...[...run.replays, ...run.probes].flatMap((kept) => Object.keys(kept.arms))]);
  return data.arms.filter((arm) => names.has(arm.name));
}

/** Draws again what depends on which arms are shown. */
function drawShown() {
  drawCurves(currentRun());
  drawStates(currentRun());
  drawProbes(currentRun());
  if (view) {
    drawStrip();
    seek(state.step);
  }
}

function drawLegend(run) {
  const buttons = runArms(run).map((arm) => element("button", {
    type: "button", title: arm.note, "data-arm": arm.name, "aria-pressed": String(state.shown.has(arm.name)),
    onclick: (event) => {
      if (!state.shown.delete(arm.name)) state.shown.add(arm.name);
      event.currentTarget.setAttribute("aria-pressed", String(state.shown.has(arm.name)));
      drawShown();
    },
  }, swatch(arm.name), arm.name));
  if (run.on_demand.length > 0) {
    buttons.push(element("button", {
      type: "button", class: "all", title: "Controls and weaker rules are hidden at first", "data-all": "",
      onclick: () => {
        runArms(run).forEach((arm) => state.shown.add(arm.name));
        drawLegend(run);
        drawShown();
        byId("legend").querySelector("[data-all]").focus();
      },
    }, "show all"));
  }
  byId("legend").replaceChildren(...buttons);
  byId("legend").hidden = buttons.length === 0;
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
  const cellsOf = (metric) => leads.map((lead) => cellOf(lead, metric));
  const ranges = metrics.map((metric) => extent(cellsOf(metric).map((cell) => cell?.value).filter(Boolean).flatMap((value) => [value.lo, value.hi])));
  const body = leads.map((lead, index) => element("tr", { class: index === state.run ? "focus" : null },
    element("th", { scope: "row" }, element("span", { class: "name" }, lead.run.name), element("small", {}, lead.row?.arm ?? "")),
    ...metrics.map((metric, column) => {
      const cell = cellOf(lead, metric);
      return valueCell(cell && { ...cell, best: false }, ranges[column], lead.row?.arm, commonCount(cellsOf(metric)) !== null);
    })));
  byId("overview-table").replaceChildren(sortableTable([columnHead("Run"), ...metrics.map((metric) => metricHead(metric, cellsOf(metric)))], [{ rows: body }]));
}

function chooseRun(index) {
  stop();
  state.run = index;
  const run = currentRun();
  const own = runArms(run);
  // Controls and weak rules are many lines that few ask for: they come when they are called.
  state.shown = new Set(own.map((arm) => arm.name).filter((name) => !run.on_demand.includes(name)));
  if (state.shown.size === 0) own.forEach((arm) => state.shown.add(arm.name));
  chooseRunButton();
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
  drawMaking(run);
  drawGlossary(run);
}

function chooseRunButton() {
  choice(byId("runs"), data.runs.map((run, index) => [index, run.name]), state.run, (index) => {
    chooseRun(index);
    noteAddress();
  });
}

listenToPlayer();
listenToEnlarged();
listenToDownloads();
if (data.runs.length > 0) {
  if (location.hash.includes("=")) follow(location.hash);
  else chooseRun(0);
  window.addEventListener("hashchange", () => follow(location.hash));
}
