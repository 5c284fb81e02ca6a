// Elements, numbers and what every part of the page shares. Text from the data only ever enters
// the page as text nodes.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const arms = new Map(data.arms.map((arm) => [arm.name, arm]));

/** What is being looked at. */
const state = { run: 0, clip: 0, step: 0, arm: null, shown: new Set(), overlay: false, loop: false, playing: null };

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; strings among the children become text. */
function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Text in which what stands between backticks is code. */
const prose = (text) => text.split("`").map((part, place) => (place % 2 === 1 ? element("code", {}, part) : part));

/** An SVG element. */
function shape(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** A picture-like SVG with a spoken name. */
function drawing(width, height, label, ...children) {
  const attributes = { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label };
  return shape("svg", attributes, ...children);
}

const finite = (value) => typeof value === "number" && Number.isFinite(value);

/** A number with digits after the point and a real minus; a dash where there is none. */
function number(value, digits) {
  if (!finite(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

function signed(value, digits) {
  const text = number(value, digits);
  return finite(value) && value > 0 && Number(text) !== 0 ? `+${text}` : text;
}

/** A number of any size in about three significant digits. */
function brief(value) {
  if (!finite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("-", "−");
  return number(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

const color = (name) => `var(--c${arms.get(name)?.color ?? 10})`;
const isControl = (name) => arms.get(name)?.role === "control";

/** Controls are dashed, each in its own way, so that grays need not be distinguished. */
const CONTROL_DASHES = { none: "2 4", copy: "6 4", oracle: "9 3 2 3", tokenizer: "14 4" };
/** Lines of arms that share a color: along the line, and in the short one of the legend. */
const PATTERNS = [[null, null], ["8 4", "6 4"], ["2 3", "2 2"], ["10 3 2 3", "7 2 2 2"]];

function dash(name) {
  if (isControl(name)) return CONTROL_DASHES[name] ?? "4 4";
  return PATTERNS[(arms.get(name)?.pattern ?? 0) % PATTERNS.length][0];
}

/** The short line that stands for an arm everywhere. */
function swatch(name) {
  const line = { x1: 0, x2: 16, y1: 5, y2: 5, "stroke-width": 4, "stroke-dasharray": isControl(name) ? "3 2" : PATTERNS[(arms.get(name)?.pattern ?? 0) % PATTERNS.length][1] };
  const node = shape("svg", { class: "swatch", viewBox: "0 0 16 10", "aria-hidden": "true" }, shape("line", line));
  node.style.stroke = color(name);
  return node;
}

/** A row of buttons of which one is chosen. */
function choice(container, options, chosen, choose) {
  const buttons = options.map(([value, text, title]) =>
    element("button", {
      type: "button", title, "aria-pressed": String(value === chosen),
      onclick: () => {
        buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(options[index][0] === value)));
        choose(value);
      },
    }, text));
  container.replaceChildren(...buttons);
  container.hidden = options.length < 2;
}

const tip = byId("tip");

/** Shows the tip beside a place of the window and keeps it inside. */
function showTip(x, y, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > window.innerWidth ? x - 16 - box.width : x + 16;
  const top = Math.min(y + 12, window.innerHeight - box.height - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hideTip() {
  tip.hidden = true;
}

/** Draws into a container now and again whenever its width changes. */
function responsive(container, draw) {
  container.observer?.disconnect();
  let width = 0;
  const render = () => {
    const now = Math.round(container.clientWidth);
    if (now === 0 || now === width) return;
    width = now;
    container.replaceChildren(draw(width));
  };
  render();
  container.observer = new ResizeObserver(render);
  container.observer.observe(container);
}
