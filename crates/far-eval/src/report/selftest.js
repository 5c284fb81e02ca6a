// `index.html#selftest` uses the page as a person would and leaves what it found in the body's
// data-selftest, for a browser without a window.

function selfTest() {
  const wrong = [];
  const expect = (claim, holds) => {
    if (!holds) wrong.push(claim);
  };
  const settled = () => new Promise((resolve) => setTimeout(resolve, 150));
  window.addEventListener("error", (event) => wrong.push(`error: ${event.message}`));
  window.addEventListener("unhandledrejection", (event) => wrong.push(`rejection: ${event.reason}`));
  const shot = (canvas) => canvas.toDataURL();
  const steps = async () => {
    await settled();
    for (const [index] of data.runs.entries()) {
      chooseRun(index);
      await settled();
      const run = currentRun();
      const { scrollWidth, clientWidth } = document.documentElement;
      expect(`the page is no wider than its window: ${scrollWidth} of ${clientWidth}`, scrollWidth <= clientWidth);
      expect("the table has every arm", byId("headline").querySelectorAll("tbody tr:not(.divider)").length === run.headline.rows.length);
      if (run.curves.length > 0 && run.headline.learned) {
        const chip = byId("legend").querySelector(`[data-arm="${CSS.escape(run.headline.learned)}"]`);
        const lines = () => byId("curve").querySelectorAll("path.series").length;
        const before = lines();
        chip.click();
        expect("an arm can be hidden", lines() === before - 1 && chip.getAttribute("aria-pressed") === "false");
        chip.click();
        expect("an arm can be shown again", lines() === before);
        byId("legend").querySelector("[data-all]")?.click();
        const curves = run.curves.find((group) => group.metric.id === "psnr") ?? run.curves[0];
        expect("all arms can be shown", lines() === Object.keys(curves.arms).length);
        const drawn = [...byId("curve").querySelectorAll("path.series")].map((path) => `${path.style.stroke} ${path.getAttribute("stroke-dasharray")}`);
        expect("no two lines look alike", new Set(drawn).size === drawn.length);
      }
      for (const table of ["probe", "detail"]) {
        const probed = run.headline.metrics.filter((metric) => metric.table === table).length;
        expect("every probe has a column", byId(table).querySelectorAll("thead th").length === (probed > 0 ? probed + 1 : 0));
      }
      const states = run.headline.metrics.some((metric) => metric.id.startsWith("state_"));
      expect("state accuracy is drawn where it was measured", states === byId("states").querySelectorAll(".share").length > 0);
      const kinds = [...new Set(run.probes.map((question) => question.probe))];
      expect("every probe has a section", byId("probe-views").children.length === kinds.length);
      for (const section of byId("probe-views").children) {
        expect("both sides are shown", section.querySelectorAll("tbody tr").length === 2);
        expect("every answer has a verdict", section.querySelectorAll(".mark").length === 2 * (section.querySelectorAll("thead .name").length) && section.querySelector(".mark") !== null);
        const [, next] = section.querySelectorAll(".choice button");
        next?.click();
        expect("another question can be chosen", !next || next.getAttribute("aria-pressed") === "true");
      }
      const sorters = [...byId("headline").querySelectorAll("button.sort")];
      if (sorters.length > 1) {
        const order = () => [...byId("headline").querySelectorAll("tbody:first-of-type .name")].map((name) => name.textContent).join();
        const before = order();
        sorters[0].click();
        const names = order().split(",");
        expect("a title sorts its column", names.join() === [...names].sort((a, b) => a.localeCompare(b)).join());
        sorters[0].click();
        sorters[0].click();
        expect("the third press brings the first order back", order() === before);
      }
      expect("backticks are set as code", ![...document.querySelectorAll("dd")].some((meaning) => meaning.textContent.includes("`")));
      const counts = byId("headline").textContent.match(/n = \d+/g) ?? [];
      expect("values are counted", counts.length > 0 === run.headline.rows.some((row) => row.cells.some((cell) => cell?.value.n > 0)));
      const main = columnsOf(run, "main");
      const wide = run.headline.rows.some((row) => main.some((column) => row.cells[column]?.wide && finite(row.cells[column].value.mean)));
      expect("wide intervals have a caution", (byId("headline").querySelector(".caution") !== null) === wide && !(wide && byId("wide-note").hidden));
      for (const button of byId("paired-metrics").querySelectorAll("button")) {
        button.click();
        const column = run.headline.metrics.findIndex((metric) => metric.label === button.textContent);
        const few = run.headline.paired.filter((row) => row.cells[column]?.verdict === "too-few" && finite(row.cells[column].value.mean)).length;
        expect("too few clips have no verdict", byId("paired").querySelectorAll(".badge.too-few").length === few);
      }
      expect("results can be saved", resultRows(run).every((row) => row.length === 10));
      expect("training can be saved", trainingRows(run).every((row) => row.length === 4));
      const lines = (name) => Number(byId("training").textContent.includes(name));
      expect("every training has its own line", run.trainings.length < 2 || run.trainings.every(({ name }) => lines(name) === 1));
      expect("the command is shown", byId("command").textContent === (run.command ?? ""));
      if (!view) continue;
      const [truth] = view.figures.fixed;
      const mine = view.figures.figures.find((one) => one.name === state.arm);
      const [text, picture, first] = [byId("step").textContent, shot(truth.canvas), shot(mine.canvas)];
      const scrubber = byId("scrubber");
      scrubber.value = scrubber.max;
      scrubber.dispatchEvent(new Event("input", { bubbles: true }));
      await settled();
      expect("the scrubber changes the step", byId("step").textContent !== text);
      expect("the scrubber changes the truth", shot(truth.canvas) !== picture);
      expect("the scrubber changes the prediction", shot(mine.canvas) !== first);
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
      expect("an arrow key moves back", Number(scrubber.value) === Number(scrubber.max) - 1);
      await settled();
      const plain = shot(mine.canvas);
      byId("overlay").click();
      await settled();
      expect("the error is drawn over the picture", shot(mine.canvas) !== plain);
      byId("overlay").click();
      await settled();
      const recalled = view.replay.arms[state.arm][state.step].recalled.length;
      expect("every recalled frame has a card", byId("recalled").querySelectorAll(".card[data-frame]").length === recalled);
      const slots = Math.max(...Object.values(view.replay.arms).map((steps) => steps[state.step].recalled.length));
      expect("every slot of a rule has a card, be it empty", isControl(state.arm) || byId("recalled").querySelectorAll(".card[data-frame], .card.empty").length === slots);
      expect("what rounds to nothing is no repetition", !byId("recalled").textContent.includes("e−"));
      const heard = Object.keys(view.replay.sounds).length > 0;
      const spectrograms = byId("recalled").querySelectorAll(".sound canvas[data-painted]");
      expect("every recalled frame and the present are heard", spectrograms.length === (heard ? recalled + 1 : 0));
      const weighed = keyCue(view.replay, state.arm) !== null;
      expect("the way back is colored by weight", byId("map").querySelectorAll(".weights polyline").length === (weighed ? view.replay.frames.length : 0));
      expect("the colors have a legend", byId("map-legend").querySelectorAll(".ramp").length === Number(weighed));
      expect("every recalled frame is on the map", byId("map").querySelectorAll(".rank").length === recalled);
      const words = [...byId("map").querySelectorAll("svg > text, svg > line")].map((mark) => mark.getBoundingClientRect());
      expect("nothing runs through the words on the map", words.every((one, place) => words.slice(0, place).every((other) =>
        one.left >= other.right || one.right <= other.left || one.top >= other.bottom || one.bottom <= other.top)));
      byId("map").querySelector(".memory[tabindex]")?.dispatchEvent(new Event("click"));
      expect("a memory on the map marks its card", recalled === 0 || byId("recalled").querySelector(".marked") !== null);
      byId("play").click();
      expect("the play button plays", state.playing !== null);
      byId("play").click();
      byId("replay-section").scrollIntoView();
      const space = () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
      space();
      expect("the space bar plays", state.playing !== null);
      space();
      expect("the space bar pauses", state.playing === null);
      byId("loop").click();
      expect("a clip can loop", state.loop && byId("loop").getAttribute("aria-pressed") === "true");
      byId("loop").click();
      mine.button.click();
      await settled();
      const large = byId("enlarged-pictures").querySelectorAll("canvas[data-painted]");
      expect("a picture is enlarged beside the truth", dialog.open && large.length === 2 && shot(large[1]) === shot(mine.canvas));
      const title = byId("enlarged-title").textContent;
      byId("enlarged-back").click();
      expect("the large picture moves with the step", byId("enlarged-title").textContent !== title);
      byId("enlarged-close").click();
      byId("recalled").querySelector(".zoom")?.click();
      expect("a memory is enlarged", recalled === 0 || dialog.open);
      dialog.close();
      const gif = new Uint8Array(await (await clipGif()).arrayBuffer());
      expect("the clip is a GIF", String.fromCharCode(...gif.slice(0, 6)) === "GIF89a" && gif.at(-1) === 0x3b);
      const rows = clipRows(view.replay);
      expect("every step is a row", rows.length === 1 + Object.keys(view.replay.arms).length * view.replay.frames.length);
      expect("fields with commas are quoted", csv([["a,b", "c\"d", null]]) === '"a,b","c""d",\n');
      seek(view.replay.frames.length - 1);
      const link = address();
      seek(0);
      follow(link);
      expect("a link keeps clip, step and arm", state.step === view.replay.frames.length - 1 && address() === link);
      seek(0);
    }
  };
  steps().catch((error) => wrong.push(String(error))).then(() => {
    document.body.dataset.selftest = wrong.length === 0 ? "passed" : `failed: ${wrong.join("; ")}`;
    window.parent.postMessage(document.body.dataset.selftest, "*");
  });
}

if (location.hash === "#selftest") selfTest();
