// State accuracy as bars: by kind of change, and by how large the change is.

const STATE_KINDS = [["surface", "In plain sight"], ["container", "Inside containers"]];
const STATE_SIZES = [["", "all"], ["_small", "small"], ["_medium", "medium"], ["_large", "large"]];

/** One arm's share with its interval on a track from 0 to 100 %. */
function shareBar(name, cell) {
  const percent = (value) => `${Math.min(100, Math.max(0, 100 * value))}%`;
  const fill = element("span", { class: "fill" });
  fill.style.width = percent(cell.value.mean);
  fill.style.background = color(name);
  const track = element("span", { class: "track", "aria-hidden": "true" }, fill);
  if (finite(cell.value.lo) && finite(cell.value.hi)) {
    const line = element("span", { class: "reach" });
    line.style.left = percent(cell.value.lo);
    line.style.right = `calc(100% - ${percent(cell.value.hi)})`;
    track.append(line);
  }
  const value = element("span", { class: "value" }, `${cell.text} %`);
  return element("div", { class: "share", title: `${name}: ${cell.text} % (${cell.interval}, ${countText(cell.value)})` }, element("span", { class: "name" }, swatch(name), name), track, value);
}

function drawStates(run) {
  const { metrics, rows } = run.headline;
  const column = (kind, size) => metrics.findIndex((metric) => metric.id === `state_${kind}${size}` || metric.id === `state_${kind}${size}_mse`);
  const parts = [];
  for (const [kind, title] of STATE_KINDS) {
    const groups = [];
    for (const [size, label] of STATE_SIZES) {
      const at = column(kind, size);
      const bars = at < 0 ? [] : rows.filter((row) => state.shown.has(row.arm) && finite(row.cells[at]?.value.mean)).map((row) => shareBar(row.arm, row.cells[at]));
      if (bars.length > 0) groups.push(element("div", { class: "stratum" }, element("h4", {}, label), ...bars));
    }
    if (groups.length > 0) parts.push(element("div", {}, element("h3", {}, title), ...groups));
  }
  const measured = STATE_KINDS.some(([kind]) => STATE_SIZES.some(([size]) => column(kind, size) >= 0));
  byId("state-section").hidden = !measured;
  byId("states").replaceChildren(...(parts.length > 0 ? parts : [element("p", { class: "empty" }, "No arm is shown: choose some above.")]));
}
