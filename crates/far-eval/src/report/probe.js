// Probes with two sides: two histories of one present, or two ends of a corridor.

const PROBES = {
  counterfactual: {
    title: "Same present, different histories",
    note: "Two episodes agree in what is seen now and differ in what happened before. A prediction is right (✓) where it is nearer to the truth of its own history than to the other's.",
  },
  both_ends: {
    title: "Both ends of the corridor",
    note: "From one present and one noise each arm generates both ends. The second agent must appear at its true end and not at the other; a detector says where it does.",
  },
};

/** A picture of a probe, framed where it is compared; an answer has a verdict. */
function probePicture(question, id, caption, answer) {
  const canvas = frame(question, caption);
  paint(canvas, id);
  const box = element("div", { class: "framed" }, canvas);
  if (question.crop) {
    const [left, top, right, bottom] = question.crop;
    const [width, height] = question.size;
    const part = element("span", { class: "crop", "aria-hidden": "true" });
    Object.assign(part.style, { left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`, width: `${(100 * (right - left)) / width}%`, height: `${(100 * (bottom - top)) / height}%` });
    box.append(part);
  }
  const figure = element("figure", { class: "answer" }, box);
  if (answer) {
    const verdict = answer.right ? "right" : "wrong";
    figure.classList.add(verdict);
    const memories = answer.recalled.map(([at, number]) => {
      const memory = frame(question, `Recalled frame ${at}`);
      memory.title = `recalled frame ${at}`;
      paint(memory, number);
      return memory;
    });
    figure.append(element("figcaption", {}, element("span", { class: `mark ${verdict}` }, answer.right ? "✓ right" : "✗ wrong"), answer.note ? element("small", {}, answer.note) : null),
      ...(memories.length > 0 ? [element("div", { class: "memories" }, element("span", {}, "recalled:"), ...memories)] : []));
  }
  return figure;
}

/** One question: a row per side, a column for what is known and one per arm. */
function probeTable(question) {
  const names = data.arms.map((arm) => arm.name).filter((name) => name in question.arms && state.shown.has(name));
  const head = element("tr", {},
    ...["Side", "Now", "Truth"].map((title) => element("th", { scope: "col" }, title)),
    ...names.map((name) => element("th", { scope: "col" }, element("span", { class: "name" }, swatch(name), name))));
  const rows = question.sides.map((side, index) => element("tr", {},
    element("th", { scope: "row" }, side.name),
    element("td", {}, probePicture(question, question.present, "Now", null)),
    element("td", {}, probePicture(question, side.truth, `Truth: ${side.name}`, null)),
    ...names.map((name) => element("td", {}, probePicture(question, question.arms[name][index].picture, `${name}: ${side.name}`, question.arms[name][index])))));
  const table = element("table", { class: "probe" }, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": question.place }, table);
}

/** How many of the questions that can be looked at each arm answers right on both sides. */
function probeCount(questions) {
  const names = data.arms.map((arm) => arm.name).filter((name) => questions.some((question) => name in question.arms));
  const counts = names.map((name) => {
    const own = questions.filter((question) => name in question.arms);
    return `${name} ${own.filter((question) => question.arms[name].every((answer) => answer.right)).length} of ${own.length}`;
  });
  return `Right on both sides, of those kept here: ${counts.join(", ")}.`;
}

/** One section per probe that was kept. */
function drawProbes(run) {
  const kinds = [...new Set(run.probes.map((question) => question.probe))];
  state.probe ??= {};
  byId("probe-views").replaceChildren(...kinds.map((kind, place) => {
    const questions = run.probes.filter((question) => question.probe === kind);
    const { title, note } = PROBES[kind] ?? { title: kind.replaceAll("_", " "), note: "" };
    const id = `probe-view-${place}`;
    const [picker, box] = [element("div", { class: "choice" }), element("div", {})];
    const where = element("p", { class: "muted" });
    const draw = (index) => {
      state.probe[kind] = index;
      where.textContent = questions[index].place;
      box.replaceChildren(probeTable(questions[index]));
    };
    const chosen = Math.min(state.probe[kind] ?? 0, questions.length - 1);
    choice(picker, questions.map((question, index) => [index, String(index + 1), question.place]), chosen, draw);
    draw(chosen);
    return element("section", { "aria-labelledby": id }, element("h2", { id }, title), picker, where, box,
      element("p", { class: "note" }, `${note} ${probeCount(questions)}`));
  }));
}
