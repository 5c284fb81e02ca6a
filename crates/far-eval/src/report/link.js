// What is being looked at, in the address of the page: run, clip, step and arm.

let pending = null;

/** The part of the address after "#". */
function address() {
  const parts = new URLSearchParams();
  if (data.runs.length > 1) parts.set("run", currentRun().name);
  if (view) {
    parts.set("clip", state.clip + 1);
    parts.set("step", state.step + 1);
    parts.set("arm", state.arm);
  }
  return `#${parts}`;
}

/** Writes the address soon, once for many changes: browsers refuse pages that do so all the time. */
function noteAddress() {
  byId("link").href = address();
  clearTimeout(pending);
  if (state.playing !== null) return;
  pending = setTimeout(() => history.replaceState(null, "", address()), 250);
}

/** Goes where an address says; what it does not say stays as it is, what does not exist is left out. */
function follow(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const run = data.runs.findIndex((each) => each.name === parts.get("run"));
  const place = (name) => {
    const value = Number(parts.get(name));
    return Number.isInteger(value) && value > 0 ? value - 1 : null;
  };
  state.clip = place("clip") ?? state.clip;
  state.step = place("step") ?? state.step;
  state.arm = parts.get("arm") ?? state.arm;
  chooseRun(run < 0 ? state.run : run);
  if (view) byId("replay-section").scrollIntoView({ block: "start" });
}
