// Tables of values with intervals whose columns can be sorted.

/** A small picture of an interval on the scale of its column. */
function whisker(value, [low, high], name) {
  const at = (number) => 2 + (96 * (number - low)) / (high - low || 1);
  const svg = shape("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(shape("line", { class: "grid", x1: 0, x2: 100, y1: 4, y2: 4, "stroke-width": 1 }));
  if (finite(value.lo) && finite(value.hi)) {
    const bar = shape("line", { x1: at(value.lo), x2: at(value.hi), y1: 4, y2: 4, "stroke-width": 4, opacity: 0.4 });
    bar.style.stroke = color(name);
    svg.append(bar);
  }
  const dot = shape("rect", { x: at(value.mean) - 0.9, y: 0, width: 1.8, height: 8 });
  dot.style.fill = color(name);
  svg.append(dot);
  return svg;
}

/** The name of an arm with its color and what it does. */
function armName(name) {
  const note = arms.get(name)?.note;
  return [element("span", { class: "name" }, swatch(name), name), note ? element("small", {}, note) : null];
}

/** How many clips an interval is over; nothing where the count is unknown. */
const countText = (value) => (value.n > 0 ? `n = ${value.n}` : "");

/** How many clips all cells of a column are over; null where they differ. */
function commonCount(cells) {
  const counts = new Set(cells.filter(Boolean).map((cell) => cell.value.n));
  return counts.size === 1 ? [...counts][0] : null;
}

/** The title of a column; pressing it sorts by what is better first. */
function columnHead(label, { note, unit, better } = {}, count = null) {
  const parts = [unit, better === "lower" ? "lower is better" : "", count ? `n = ${count}` : ""].filter(Boolean).join(", ");
  const button = element("button", { type: "button", class: "sort", title: note || null }, label);
  return element("th", { scope: "col", "data-better": better ?? "text" }, button, element("small", {}, parts || "\u00a0"));
}

const metricHead = (metric, cells) => columnHead(metric.label, metric, commonCount(cells));

/** A value with its interval; how many clips it is over stands in it unless its column says so. */
function valueCell(cell, range, name, counted) {
  if (!cell) return element("td", {}, element("span", { class: "mean" }, "–"));
  const known = finite(cell.value.mean);
  const caution = "The interval is wider than the value itself: do not rely on it.";
  return element("td", { class: cell.best ? "best" : null, "data-value": known ? cell.value.mean : null },
    element("span", { class: "mean" }, cell.text),
    known ? element("span", { class: "interval" }, cell.interval) : null,
    known && cell.spread ? element("span", { class: "interval", title: `${cell.spread.seeds} seeds, standard deviation ${cell.spread.deviation}` }, `seeds ${cell.spread.range}`) : null,
    known && !counted ? element("span", { class: "interval" }, countText(cell.value)) : null,
    known && cell.wide ? element("span", { class: "caution", title: caution }, "⚠ wide") : null,
    known && cell.value.mean >= range[0] && cell.value.mean <= range[1] ? whisker(cell.value, range, name) : null);
}

/** A table of groups of rows, the second and later ones under a title; rows are sorted within their group. */
function sortableTable(heads, groups) {
  const bodies = groups.map(({ title, rows }) => {
    const divider = title ? [element("tr", { class: "divider" }, element("th", { colspan: heads.length, scope: "rowgroup" }, title))] : [];
    return { divider, rows, node: element("tbody", {}, ...divider, ...rows) };
  });
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const lowFirst = head.dataset.better === "lower" || head.dataset.better === "text";
    const [first, second] = lowFirst ? ["ascending", "descending"] : ["descending", "ascending"];
    const now = head.getAttribute("aria-sort");
    const next = now === first ? second : now === second ? null : first;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (next) head.setAttribute("aria-sort", next);
    for (const { divider, rows, node } of bodies) node.replaceChildren(...divider, ...sortedRows(rows, column, next));
  }));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), ...bodies.map(({ node }) => node));
}

/** Rows by a column, or as they came; rows without a value stand last either way. */
function sortedRows(rows, column, direction) {
  if (!direction) return rows;
  const sign = direction === "ascending" ? 1 : -1;
  const key = (row) => {
    const cell = row.children[column];
    if (cell.tagName === "TH") return cell.querySelector(".name").textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  return [...rows].sort((a, b) => {
    const [first, second] = [key(a), key(b)];
    if (first === null || second === null) return Number(first === null) - Number(second === null);
    return sign * (typeof first === "string" ? first.localeCompare(second) : first - second);
  });
}
