// Line charts with bands, a cursor, direct labels and a tip.

/** Round numbers that span a range. */
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const values = [];
  for (let index = first; index * step <= high + step * 1e-9; index += 1) values.push(index * step);
  return { values, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0)) };
}

function extent(values) {
  const known = values.filter(finite);
  if (known.length === 0) return [0, 1];
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (low === high) {
    const room = Math.abs(low) * 0.05 || 0.5;
    low -= room;
    high += room;
  }
  const room = (high - low) * 0.06;
  return [low - room, high + room];
}

/** The path of points, broken where a value is missing. */
function trace(points, x, y) {
  let pen = "M";
  return points.map(([at, value]) => {
    if (!finite(value)) {
      pen = "M";
      return "";
    }
    const part = `${pen}${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    pen = "L";
    return part;
  }).join("");
}

function area(points, x, y) {
  const known = points.filter(([, low, high]) => finite(low) && finite(high));
  if (known.length < 2) return "";
  const upper = known.map(([at, , high]) => `${x(at).toFixed(1)},${y(high).toFixed(1)}`);
  const lower = known.map(([at, low]) => `${x(at).toFixed(1)},${y(low).toFixed(1)}`).reverse();
  return `M${upper.join("L")}L${lower.join("L")}Z`;
}

/** Moves labels apart so that none covers another. */
function spread(labels, gap, low, high) {
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, index) => {
    label.y = Math.max(label.y, index ? labels[index - 1].y + gap : low);
  });
  for (let index = labels.length - 1; index >= 0; index -= 1) {
    const ceiling = index === labels.length - 1 ? high : labels[index + 1].y - gap;
    labels[index].y = Math.min(labels[index].y, ceiling);
  }
}

/**
 * A line chart in a container.
 * options: label, height, series [{ name, text, color, dash, width, points [[x, y, n?]], band [[x, lo, hi]], bandOpacity }],
 * range (of y), x [low, high], xTicks, xText(value), digits, unit, labels (at the ends), seek(x).
 * Returns { cursor(x) }.
 */
function lineChart(container, options) {
  const { series, height = 240, labels = true } = options;
  let place = null;
  let line = null;
  let at = null;
  const cursor = (value) => {
    at = value;
    if (!line || value === null) return;
    line.setAttribute("x1", place(value));
    line.setAttribute("x2", place(value));
    line.removeAttribute("visibility");
  };
  const draw = (width) => {
    const longest = labels ? Math.max(0, ...series.map((one) => one.text.length)) : 0;
    const margin = { left: 46, right: labels ? Math.min(longest * 6.9 + 14, width * 0.32) : 10, top: 10, bottom: options.xTicks === false ? 10 : 28 };
    const all = series.flatMap((one) => [...one.points.map((point) => point[1]), ...(one.band ?? []).flatMap((point) => point.slice(1))]);
    const [low, high] = options.range ?? extent(all);
    const xs = series.flatMap((one) => one.points.map((point) => point[0]));
    const [left, right] = options.x ?? [Math.min(...xs), Math.max(...xs)];
    const x = (value) => margin.left + ((value - left) / (right - left || 1)) * (width - margin.left - margin.right);
    const y = (value) => height - margin.bottom - ((value - low) / (high - low || 1)) * (height - margin.top - margin.bottom);
    place = x;
    const svg = drawing(width, height, options.label);
    const rows = ticks(low, high, Math.max(2, Math.round((height - 20) / 38)));
    for (const value of rows.values) {
      svg.append(
        shape("line", { class: value === 0 ? "zero" : "grid", x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value) }),
        shape("text", { x: margin.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value, rows.digits)));
    }
    if (options.xTicks !== false) {
      const columns = ticks(left, right, Math.max(2, Math.round(width / 90)));
      for (const value of columns.values) {
        const text = options.xText ? options.xText(value) : number(value, columns.digits);
        svg.append(shape("text", { x: x(value), y: height - 8, "text-anchor": "middle" }, text));
      }
    }
    for (const one of series.filter((each) => each.band)) {
      const band = shape("path", { d: area(one.band, x, y), opacity: one.bandOpacity ?? 0.13 });
      band.style.fill = one.color;
      svg.append(band);
    }
    for (const one of series) {
      const path = shape("path", { class: "series", d: trace(one.points, x, y), "stroke-dasharray": one.dash });
      path.style.stroke = one.color;
      path.style.strokeWidth = one.width ?? 2;
      svg.append(path);
    }
    if (labels) {
      const ends = series.map((one) => [one, one.points.filter((point) => finite(point[1])).at(-1)]);
      const texts = ends.filter(([, end]) => end).map(([one, end]) => ({ one, y: y(end[1]) + 4 }));
      spread(texts, 14, margin.top + 4, height - margin.bottom + 4);
      for (const text of texts) {
        const label = shape("text", { class: "label", x: width - margin.right + 8, y: text.y }, text.one.text);
        // Nearer to the ink than the line: some colors are too light for letters.
        label.style.fill = `color-mix(in srgb, ${text.one.color} 55%, var(--ink))`;
        svg.append(label);
      }
    }
    line = shape("line", { class: "cursor", y1: margin.top, y2: height - margin.bottom, visibility: "hidden" });
    svg.append(line);
    listen(svg, options, (event) => {
      const box = svg.getBoundingClientRect();
      const inside = ((event.clientX - box.left) * (width / box.width) - margin.left) / (width - margin.left - margin.right);
      return left + Math.min(1, Math.max(0, inside)) * (right - left);
    });
    if (at !== null) cursor(at);
    return svg;
  };
  container.classList.add("chart");
  responsive(container, draw);
  return { cursor };
}

/** Tips and seeking on a chart; `valueAt` turns an event into a place on the axis. */
function listen(svg, options, valueAt) {
  const { series, digits = 2, unit = "" } = options;
  svg.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const value = valueAt(event);
    const near = series.map((one) => {
      const known = one.points.filter((point) => finite(point[1]));
      const point = known.reduce((best, each) => (!best || Math.abs(each[0] - value) < Math.abs(best[0] - value) ? each : best), null);
      return { one, point };
    }).filter(({ point }) => point).sort((a, b) => b.point[1] - a.point[1]);
    if (near.length === 0) return;
    const x = near[0].point[0];
    const head = element("div", { class: "muted" }, options.xText ? options.xText(x) : number(x, 2));
    const rows = near.slice(0, 14).map(({ one, point }) => {
      const mark = element("span", {}, "■");
      mark.style.color = one.color;
      const count = point[2] > 0 ? element("span", { class: "muted" }, `n = ${point[2]}`) : null;
      return element("div", { class: "row" }, mark, one.text, count, element("b", {}, `${options.format ? options.format(point[1]) : number(point[1], digits)} ${unit}`));
    });
    showTip(event.clientX, event.clientY, head, ...rows);
  });
  svg.addEventListener("pointerleave", hideTip);
  if (options.seek) {
    svg.classList.add("seekable");
    svg.addEventListener("click", (event) => options.seek(valueAt(event)));
  }
}
