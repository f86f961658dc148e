"use strict";
/* The view to turn: plotly draws it; this chooses what is on the wall, from where it is seen, and who has the pointer. */
(() => {
  const $ = (id) => document.getElementById(id);
  const told = JSON.parse($("scene").textContent);
  const { figure, quantities } = told;
  const view = $("vessel");
  const WALL = 0, GLASS = 1, LINES = 2;
  const EYE = 1.05, STEP = Math.PI / 18;

  const values = (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const hover = (quantity) => `%{intensity:.3g} ${quantity.unit}<extra></extra>`;

  /* Directions in LPS: x to the patient's left, y to the back, z to the head. */
  const SIDES = {
    "front": [[0, -1, 0], [0, 0, 1]], "back": [[0, 1, 0], [0, 0, 1]],
    "the patient's right": [[-1, 0, 0], [0, 0, 1]], "the patient's left": [[1, 0, 0], [0, 0, 1]],
    "head": [[0, 0, 1], [0, -1, 0]], "feet": [[0, 0, -1], [0, -1, 0]],
  };
  const vector = ([x, y, z]) => ({ x, y, z });
  const list = ({ x, y, z }) => [x, y, z];

  const option = (select, value, text) => {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    select.append(made);
  };

  const fail = (message) => {
    $("failure").textContent = message;
    $("failure").hidden = false;
    $("frame").hidden = true;
    document.body.dataset.ready = "failed";
  };

  const choose = async (choice) => {
    const lines = choice === "lines";
    if (!lines) {
      const quantity = quantities[Number(choice)];
      await Plotly.restyle(view, {
        intensity: [values(quantity.values)], cmin: quantity.limits[0], cmax: quantity.limits[1],
        colorscale: [quantity.colours], "colorbar.title.text": quantity.label, hovertemplate: hover(quantity),
      }, [WALL]);
    }
    $("meaning").textContent = lines
      ? "The paths that blood would take if the flow stood still at the moment that is shown, in a wall of glass."
      : quantities[Number(choice)].note;
    await Plotly.restyle(view, { visible: [!lines, lines, lines] }, [WALL, GLASS, LINES]);
    view.dataset.shown = choice;
  };

  const camera = () => view.layout.scene.camera;
  const aim = (eye, up) => Plotly.relayout(view, {
    "scene.camera": { ...camera(), eye: vector(eye), up: vector(up), center: vector([0, 0, 0]) },
  });
  const look = (side) => {
    if (side in SIDES) return aim(SIDES[side][0].map((part) => EYE * part), SIDES[side][1]);
    return aim(list(start.eye), list(start.up));
  };

  /* Rodrigues' rotation of a vector about a unit axis. */
  const cross = ([a, b, c], [x, y, z]) => [b * z - c * y, c * x - a * z, a * y - b * x];
  const dot = (a, b) => a.reduce((sum, part, k) => sum + part * b[k], 0);
  const unit = (a) => a.map((part) => part / Math.hypot(...a));
  const turn = (a, axis, angle) => {
    const across = cross(axis, a), along = dot(axis, a) * (1 - Math.cos(angle));
    return a.map((part, k) => part * Math.cos(angle) + across[k] * Math.sin(angle) + axis[k] * along);
  };
  const KEYS = { ArrowLeft: [1, -STEP], ArrowRight: [1, STEP], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const press = (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    const [upright, angle] = KEYS[event.key];
    const eye = list(camera().eye), right = unit(cross(list(camera().up), eye)), up = unit(cross(eye, right));
    const axis = upright ? up : right.map((part) => -part);
    aim(turn(eye, axis, angle), turn(up, axis, angle));
  };

  /* The page scrolls until the reader takes the view: a click frees the wheel, a tap the fingers. */
  let taken = false;
  const take = (yes) => {
    taken = yes;
    const fingers = matchMedia("(pointer: coarse)").matches;
    $("wake").hidden = !fingers || yes;
    $("rest").hidden = !fingers || !yes;
  };
  const guard = () => {
    const frame = $("frame");
    frame.addEventListener("wheel", (event) => { if (!taken) event.stopPropagation(); }, { capture: true });
    view.addEventListener("pointerdown", () => take(true), { capture: true });
    frame.addEventListener("mouseleave", () => { if (!matchMedia("(pointer: coarse)").matches) take(false); });
    $("wake").addEventListener("click", () => take(true));
    $("rest").addEventListener("click", () => take(false));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") take(false); });
    take(false);
  };

  const start = figure.layout.scene.camera;
  const begin = async () => {
    const probe = document.createElement("canvas");
    if (!(probe.getContext("webgl2") || probe.getContext("webgl"))) {
      fail("This browser draws nothing in three dimensions here (WebGL is off); the pictures on this page show the same.");
      return;
    }
    quantities.forEach((quantity, k) => option($("quantity"), String(k), quantity.label));
    option($("quantity"), "lines", "glass wall and streamlines");
    ["initial view", ...Object.keys(SIDES)].forEach((side) => option($("side"), side, side));
    $("bar").textContent = told.bar;
    figure.data[WALL].intensity = values(quantities[0].values);
    figure.data[WALL].hovertemplate = hover(quantities[0]);
    $("meaning").textContent = quantities[0].note;
    await Plotly.newPlot(view, figure.data, structuredClone(figure.layout), { displayModeBar: false, responsive: true });
    view.dataset.shown = "0";
    $("quantity").addEventListener("change", (event) => choose(event.target.value));
    $("side").addEventListener("change", (event) => look(event.target.value));
    $("save").addEventListener("click", () => Plotly.downloadImage(view, {
      format: "png", filename: document.title, width: 1600, height: 1200,
    }));
    view.addEventListener("keydown", press);
    guard();
    document.body.dataset.ready = "yes";
  };
  begin().catch((error) => fail(`The view could not be drawn: ${error.message}`));
})();
