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
      expect("the table has every arm", byId("headline").querySelectorAll("tbody tr:not(.divider)").length === run.headline.rows.length);
      if (run.curves.length > 0 && run.headline.learned) {
        const chip = byId("legend").querySelector(`[data-arm="${CSS.escape(run.headline.learned)}"]`);
        const lines = () => byId("curve").querySelectorAll("path.series").length;
        const before = lines();
        chip.click();
        expect("an arm can be hidden", lines() === before - 1 && chip.getAttribute("aria-pressed") === "false");
        chip.click();
        expect("an arm can be shown again", lines() === before);
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
      const heard = Object.keys(view.replay.sounds).length > 0;
      const spectrograms = byId("recalled").querySelectorAll(".sound canvas[data-painted]");
      expect("every recalled frame and the present are heard", spectrograms.length === (heard ? recalled + 1 : 0));
      const weighed = keyCue(view.replay, state.arm) !== null;
      expect("the way back is colored by weight", byId("map").querySelectorAll(".weights polyline").length === (weighed ? view.replay.frames.length : 0));
      expect("the colors have a legend", byId("map-legend").querySelectorAll(".ramp").length === Number(weighed));
      expect("every recalled frame is on the map", byId("map").querySelectorAll(".rank").length === recalled);
      byId("map").querySelector(".memory[tabindex]")?.dispatchEvent(new Event("click"));
      expect("a memory on the map marks its card", recalled === 0 || byId("recalled").querySelector(".marked") !== null);
      byId("play").click();
      expect("the play button plays", state.playing !== null);
      byId("play").click();
      seek(0);
    }
  };
  steps().catch((error) => wrong.push(String(error))).then(() => {
    document.body.dataset.selftest = wrong.length === 0 ? "passed" : `failed: ${wrong.join("; ")}`;
  });
}

if (location.hash === "#selftest") selfTest();
