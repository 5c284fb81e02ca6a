// The player: buttons, speed and keys that move the step of a clip.

/** Milliseconds that a step is shown for. */
const frameTime = () => 350 / Number(byId("speed").value);

/** What pressing the button would do. */
function showPlaying(sign, name) {
  byId("play").textContent = sign;
  byId("play").setAttribute("aria-label", name);
}

function stop() {
  clearInterval(state.playing);
  state.playing = null;
  showPlaying("▶", "Play");
  if (view) noteAddress();
}

function start() {
  clearInterval(state.playing);
  state.playing = setInterval(() => {
    const last = view.replay.frames.length - 1;
    if (state.step < last) seek(state.step + 1);
    else if (state.loop) seek(0);
    else stop();
  }, frameTime());
  showPlaying("❚❚", "Pause");
}

function play() {
  if (state.playing !== null) return stop();
  if (state.step === view.replay.frames.length - 1) seek(0);
  return start();
}

function toggleLoop() {
  state.loop = !state.loop;
  byId("loop").setAttribute("aria-pressed", String(state.loop));
}

function toggleOverlay() {
  state.overlay = !state.overlay;
  byId("overlay").setAttribute("aria-pressed", String(state.overlay));
  seek(state.step);
}

/** Whether the replays can be seen: elsewhere the space bar scrolls, as always. */
function replaysInView() {
  const { top, bottom } = byId("replay-section").getBoundingClientRect();
  return dialog.open || (top < window.innerHeight * 0.8 && bottom > window.innerHeight * 0.2);
}

/** Arrow keys move the step and the space bar plays, from anywhere but from where they already mean something. */
function onKey(event) {
  if (!view || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, select, pre, .scroll")) return;
  const moves = { ArrowLeft: -1, ArrowRight: 1 };
  if (event.key in moves) {
    event.preventDefault();
    seek(state.step + moves[event.key]);
  } else if (event.key === " " && !event.target.closest("button, a, summary, [role=button]") && replaysInView()) {
    event.preventDefault();
    play();
  }
}

function listenToPlayer() {
  byId("scrubber").addEventListener("input", (event) => seek(Number(event.target.value)));
  byId("play").addEventListener("click", play);
  byId("loop").addEventListener("click", toggleLoop);
  byId("speed").addEventListener("change", () => {
    if (state.playing !== null) start();
  });
  byId("overlay").addEventListener("click", toggleOverlay);
  byId("focus").addEventListener("change", (event) => focusArm(event.target.value));
  document.addEventListener("keydown", onKey);
}
