// The results: tables of arms by metrics, the paired differences and the curves along the way back.

function drawSummary(run) {
  byId("summary").replaceChildren(...run.summary.map((sentence) => element("p", {}, sentence)));
}

/** Columns of one of the tables. */
function columnsOf(run, table) {
  return run.headline.metrics.map((_, column) => column).filter((column) => run.headline.metrics[column].table === table);
}

/** Arms by some of the metrics; arms with no value at all are left out of all tables but the first. */
function valueTable(run, columns, all) {
  const { metrics, learned } = run.headline;
  const rows = run.headline.rows.filter((row) => all || columns.some((column) => row.cells[column]));
  const cellsOf = (column) => rows.map((row) => row.cells[column]);
  const ranges = columns.map((column) => {
    // The ceiling is far from everything else and would squeeze it.
    const near = rows.filter((row) => row.arm !== "tokenizer" || rows.length === 1);
    const known = near.map((row) => row.cells[column]?.value).filter((value) => value && finite(value.mean));
    return extent(known.flatMap((value) => [value.lo, value.hi, value.mean]));
  });
  const line = (row) => element("tr", { class: row.arm === learned ? "focus" : isControl(row.arm) ? "control" : null },
    element("th", { scope: "row" }, ...armName(row.arm).filter(Boolean)),
    ...columns.map((column, place) => valueCell(row.cells[column], ranges[place], row.arm, commonCount(cellsOf(column)) !== null)));
  const groups = [
    { rows: rows.filter((row) => !isControl(row.arm)).map(line) },
    { title: "Controls", rows: rows.filter((row) => isControl(row.arm)).map(line) },
  ];
  return sortableTable([columnHead("Arm"), ...columns.map((column) => metricHead(metrics[column], cellsOf(column)))], groups.filter((group) => group.rows.length > 0));
}

function drawHeadline(run) {
  if (run.headline.rows.length === 0) {
    byId("headline").replaceChildren(element("p", { class: "empty" }, "No arm was evaluated."));
  } else {
    byId("headline").replaceChildren(valueTable(run, columnsOf(run, "main"), true));
  }
  const wide = run.headline.rows.some((row) => row.cells.some((cell) => cell?.wide));
  byId("wide-note").hidden = !wide;
  for (const table of ["tier", "probe", "detail"]) {
    const columns = columnsOf(run, table);
    byId(`${table}-section`).hidden = columns.length === 0;
    byId(table).replaceChildren(...(columns.length > 0 ? [valueTable(run, columns, false)] : []));
    const explained = columns.map((column) => run.headline.metrics[column]).filter((metric) => metric.note);
    const meanings = explained.map((metric) => element("div", {}, element("dt", {}, metric.label), element("dd", {}, ...prose(metric.note))));
    document.getElementById(`${table}-meaning`)?.replaceChildren(...meanings);
  }
}

const VERDICTS = { ahead: "▲ ahead", behind: "▼ behind", undecided: "● no clear difference", "too-few": "○ too few clips" };

function forestRow(row, cell, metric, [low, high]) {
  const at = (value) => 4 + (292 * (value - low)) / (high - low || 1);
  const svg = shape("svg", { viewBox: "0 0 300 37", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(shape("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: 37, "vector-effect": "non-scaling-stroke" }));
  if (finite(cell.value.lo) && finite(cell.value.hi)) {
    const bar = shape("rect", { x: at(cell.value.lo), width: Math.max(1, at(cell.value.hi) - at(cell.value.lo)), y: 15, height: 7, opacity: 0.4 });
    bar.style.fill = color(row.arm);
    svg.append(bar);
  }
  const dot = shape("line", { x1: at(cell.value.mean), x2: at(cell.value.mean), y1: 10, y2: 27, "stroke-width": 3, "vector-effect": "non-scaling-stroke" });
  dot.style.stroke = color(row.arm);
  svg.append(dot);
  return element("div", { class: "row" },
    element("div", { class: "name" }, swatch(row.arm), row.arm, isControl(row.arm) ? element("small", {}, "control") : null),
    element("div", { class: "plot" }, svg),
    element("div", { class: "value" }, element("span", {}, `${cell.text} ${metric.unit}`), element("small", {}, [cell.interval, countText(cell.value), cell.spread ? `seeds ${cell.spread.range}` : ""].filter(Boolean).join(" · "))),
    element("div", { class: "verdict" }, element("span", { class: `badge ${cell.verdict}` }, VERDICTS[cell.verdict])));
}

function drawPaired(run) {
  const { metrics, paired, learned } = run.headline;
  const columns = metrics.map((_, column) => column)
    .filter((column) => paired.some((row) => row.cells[column] && finite(row.cells[column].value.mean)));
  byId("paired-section").hidden = columns.length === 0;
  byId("paired-metrics").replaceChildren();
  if (columns.length === 0) return;
  byId("paired-title").textContent = `${learned} against each other arm`;
  const draw = (column) => {
    const metric = metrics[column];
    const rows = paired.filter((row) => finite(row.cells[column]?.value.mean));
    const range = extent([0, ...rows.flatMap((row) => [row.cells[column].value.lo, row.cells[column].value.hi])]);
    const axis = element("div", { class: "row axis" }, element("div", { class: "plot" }, direction(metric, learned)));
    const drawn = rows.map((row) => forestRow(row, row.cells[column], metric, range));
    byId("paired").replaceChildren(element("div", { class: "forest" }, ...drawn, axis));
  };
  const start = columns.find((column) => metrics[column].id === "psnr") ?? columns[0];
  choice(byId("paired-metrics"), columns.map((column) => [column, metrics[column].label, metrics[column].note]), start, draw);
  draw(start);
}

function direction(metric, learned) {
  return `${metric.better === "higher" ? "right" : "left"} of the line: ${learned} is better`;
}

function drawCurves(run) {
  byId("curve-section").hidden = run.curves.length === 0;
  if (run.curves.length === 0) return;
  let chosen = run.curves.find((group) => group.metric.id === (state.curve ?? "psnr")) ?? run.curves[0];
  const draw = () => {
    const shown = data.arms.filter((arm) => state.shown.has(arm.name) && chosen.arms[arm.name]);
    const series = shown.map(({ name, role }) => {
      const { time, values } = chosen.arms[name];
      return {
        name, text: name, color: color(name), dash: dash(name), width: role === "learned" ? 3 : 2,
        points: time.map((at, index) => [at, values[index]?.[0], values[index]?.[3]]),
        // Many bands over each other show nothing: those of rules only while there are few lines.
        bandOpacity: shown.length <= 3 || role === "learned" ? 0.16 : 0.07,
        band: shown.length <= 6 || role === "learned" ? time.map((at, index) => [at, values[index]?.[1], values[index]?.[2]]) : null,
      };
    });
    if (series.length === 0) {
      byId("curve").observer?.disconnect();
      byId("curve").replaceChildren(element("p", { class: "empty" }, "No arm is shown: choose some above."));
      return;
    }
    const { label, unit, digits } = chosen.metric;
    byId("curve-title").textContent = `${label}${unit ? ` in ${unit}` : ""} along the way back`;
    lineChart(byId("curve"), { series, label: `${label} over the way back`, height: 320, digits, unit, x: [0, 1], xText: (at) => `${Math.round(at * 100)} %` });
  };
  const options = run.curves.map((group) => [group.metric.id, group.metric.unit ? `${group.metric.label} (${group.metric.unit})` : group.metric.label, group.metric.note]);
  choice(byId("curve-metrics"), options, chosen.metric.id, (id) => {
    state.curve = id;
    chosen = run.curves.find((group) => group.metric.id === id);
    draw();
  });
  draw();
}
