"use strict";
/* The view to turn: plotly draws it; this chooses what is on the wall, in which colours, what is cut away, what moves,
   from where it is seen, and who has the pointer. Geometry, ranges and what is written over it: vessel.js. */
(() => {
  const { clipped, compose, numbers, placeLabels, rangeOf, spread, ticksOf, unpack } = vessel;
  const $ = (id) => document.getElementById(id);
  const told = JSON.parse($("scene").textContent);
  const { figure, quantities, moving } = told;
  const view = $("vessel");
  const WALL = 0, GLASS = 1, LINES = 2, PARTICLES = 3;
  const EYE = 1.05, STEP = Math.PI / 18, FILLED = 0.92, FRAME_MS = 90;
  const areas = unpack(told.areas);
  const values = quantities.map((quantity) => unpack(quantity.values));
  const whole = figure.data.map((trace) => trace.type === "mesh3d"
    ? Object.fromEntries(["x", "y", "z", "i", "j", "k"].map((key) => [key, numbers(trace[key])])) : null);

  /* Directions in LPS: x to the patient's left, y to the back, z to the head. */
  const SIDES = {
    "front": [[0, -1, 0], [0, 0, 1]], "back": [[0, 1, 0], [0, 0, 1]],
    "the patient's right": [[-1, 0, 0], [0, 0, 1]], "the patient's left": [[1, 0, 0], [0, 0, 1]],
    "head": [[0, 0, 1], [0, -1, 0]], "feet": [[0, 0, -1], [0, -1, 0]],
  };
  const vector = ([x, y, z]) => ({ x, y, z });
  const list = ({ x, y, z }) => [x, y, z];
  const cross = ([a, b, c], [x, y, z]) => [b * z - c * y, c * x - a * z, a * y - b * x];
  const dot = (a, b) => a.reduce((sum, part, k) => sum + part * b[k], 0);
  const unit = (a) => a.map((part) => part / Math.hypot(...a));

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

  /* ---- what is shown ---- */

  const shown = { choice: "0", percentile: null, log: null, side: "", depth: 0.5 };
  const chosen = () => (shown.choice === "glass" ? null : quantities[Number(shown.choice)]);
  const scaleOf = (quantity) => {
    const [percentile, log] = [shown.percentile ?? quantity.percentile, shown.log ?? quantity.log];
    const asTold = percentile === quantity.percentile && log === quantity.log;
    if (asTold) return { limits: quantity.limits, log };
    return rangeOf(values[Number(shown.choice)], areas, quantity, percentile, log, told.spread);
  };
  const legend = () => {
    const quantity = chosen(), speed = $("lines").checked || $("particles").checked;
    const bars = [];
    if (quantity && quantity.parts.length) bars.push({ label: quantity.label, parts: quantity.parts });
    else if (quantity) bars.push({ label: quantity.label, colours: quantity.colours, ...scaleOf(quantity) });
    if (speed) bars.push({ ...told.speed, log: false });
    return bars;
  };
  const drawLegend = () => {
    $("legend").replaceChildren(...legend().map((bar) => {
      const item = document.createElement("div"), title = document.createElement("b");
      title.textContent = bar.label;
      item.append(title);
      for (const [, name, colour] of bar.parts ?? []) {
        const part = document.createElement("span"), dot = document.createElement("i");
        dot.style.background = colour;
        part.className = "part";
        part.append(dot, name);
        item.append(part);
      }
      if (!bar.parts) {
        const band = document.createElement("div"), ticks = document.createElement("div");
        band.className = "band";
        band.style.background = `linear-gradient(to right, ${bar.colours.map(([at, c]) => `${c} ${100 * at}%`)})`;
        ticks.className = "ticks";
        for (const [at, text] of ticksOf(bar.limits, bar.log)) {
          const tick = document.createElement("span");
          tick.style.left = `${100 * at}%`;
          tick.textContent = text;
          ticks.append(tick);
        }
        item.append(band, ticks);
      }
      return item;
    }));
  };
  const plane = () => {
    if (!shown.side) return null;
    const axis = SIDES[shown.side][0], { x, y, z } = whole[WALL];
    const heights = Array.from(x, (each, k) => axis[0] * each + axis[1] * y[k] + axis[2] * z[k]);
    const low = heights.reduce((a, b) => Math.min(a, b)), high = heights.reduce((a, b) => Math.max(a, b));
    return { axis, height: high - shown.depth * (high - low) };
  };

  /* Everything that hangs on a choice, in one go: plotly takes all traces anew whatever changes. */
  const draw = async () => {
    const quantity = chosen(), cut = plane(), glass = !quantity;
    const change = {};
    const set = (trace, key, value) => { (change[key] ??= new Array(figure.data.length))[trace] = value; };
    figure.data.forEach((trace, k) => {
      const mesh = whole[k] && (cut ? clipped(whole[k], cut) : whole[k]);
      for (const key of mesh ? ["x", "y", "z", "i", "j", "k"] : []) set(k, key, mesh[key]);
      if (k === WALL && quantity) Object.entries(colours(quantity, mesh)).forEach(([key, value]) => set(k, key, value));
    });
    set(WALL, "visible", !glass);
    set(GLASS, "visible", glass);
    set(LINES, "visible", $("lines").checked);
    set(PARTICLES, "visible", $("particles").checked);
    const update = {}, traces = figure.data.map((_, k) => k);
    const present = view.data;
    for (const [key, given] of Object.entries(change)) {
      update[key] = traces.map((k) => (k in given ? given[k] : key in present[k] ? present[k][key] : undefined));
    }
    drawLegend();
    $("meaning").textContent = quantity ? `${quantity.label[0].toUpperCase()}${quantity.label.slice(1)}. ${quantity.note}`
      : "A wall of glass, so that what flows within is seen.";
    if ($("lines").checked) {
      $("meaning").append(" Streamlines: the paths that blood would take if the flow stood still at this moment.");
    }
    if ($("particles").checked) $("meaning").append(` Particles over ${moving.round_s.toPrecision(3)} s, again and again.`);
    await Plotly.restyle(view, update, traces);
    view.dataset.shown = shown.choice;
    view.dataset.drawn = String(Number(view.dataset.drawn ?? 0) + 1);
  };
  const colours = (quantity, mesh) => {
    const own = values[Number(shown.choice)];
    const at = mesh.mix ? spread(own, mesh.mix) : own;
    const text = Array.from(at, (value) => `${value.toPrecision(3)} ${quantity.unit}`);
    if (quantity.parts.length) {
      const place = new Map(quantity.parts.map(([number], n) => [number, n])), most = quantity.parts.length;
      const middle = (t) => [at[mesh.i[t]], at[mesh.j[t]], at[mesh.k[t]]].sort((a, b) => a - b)[1];
      const steps = quantity.parts.flatMap(([, , colour], n) => [[n / most, colour], [(n + 1) / most, colour]]);
      return { intensity: Array.from(mesh.i, (_, t) => place.get(Math.round(middle(t)))), intensitymode: "cell",
        cmin: -0.5, cmax: most - 0.5, colorscale: steps, hovertemplate: "%{text}<extra></extra>",
        text: Array.from(at, (value) => quantity.parts[place.get(Math.round(value))]?.[1] ?? "") };
    }
    const { limits, log } = scaleOf(quantity);
    const scaled = log ? Float32Array.from(at, (value) => Math.log10(Math.max(value, limits[0]))) : at;
    return { intensity: scaled, intensitymode: "vertex", text, hovertemplate: "%{text}<extra></extra>",
      cmin: log ? Math.log10(limits[0]) : limits[0], cmax: log ? Math.log10(limits[1]) : limits[1],
      colorscale: quantity.colours };
  };
  const controls = () => {
    const quantity = chosen(), fixed = !quantity || quantity.parts.length > 0;
    const percentile = quantity ? shown.percentile ?? quantity.percentile : 99;
    $("percentile").disabled = $("log").disabled = fixed;
    $("percentile").value = percentile;
    $("percentile-told").textContent = fixed ? "" : shown.percentile === null && quantity.fixed
      ? "whole range" : `${percentile} % of the wall`;
    $("log").checked = quantity ? scaleOf(quantity).log : false;
    $("depth").disabled = !shown.side;
    $("play").hidden = !$("particles").checked;
  };
  let drawing = Promise.resolve(), waiting = false;
  const redraw = () => { /* many moves of a slider, one drawing */
    controls();
    if (!waiting) drawing = drawing.catch(() => {}).then(() => { waiting = false; return draw(); });
    waiting = true;
    return drawing;
  };

  /* A wall in colours hides what flows within: a layer makes it of glass, and brings it back as it goes, unless it is
     cut open. Who wants both chooses a quantity again. */
  let behind = null;
  const layer = (checked) => {
    if (checked && chosen() && !shown.side) [behind, shown.choice] = [shown.choice, "glass"];
    else if (!checked && behind && !chosen() && !$("lines").checked && !$("particles").checked) {
      [behind, shown.choice] = [null, behind];
    }
    $("quantity").value = shown.choice;
    return redraw();
  };

  /* ---- particles ---- */

  const frames = moving ? unpack(moving.values) : null;
  let frame = 0, timer = 0;
  const showFrame = () => {
    const from = 4 * moving.counts.slice(0, frame).reduce((a, b) => a + b, 0), count = moving.counts[frame];
    const column = (part) => Array.from({ length: count }, (_, k) => frames[from + 4 * k + part]);
    view.dataset.frame = String(frame);
    return Plotly.restyle(view, { x: [column(0)], y: [column(1)], z: [column(2)], "marker.color": [column(3)] },
      [PARTICLES]);
  };
  const step = async () => {
    const began = performance.now();
    frame = (frame + 1) % moving.counts.length;
    await showFrame();
    if (timer) timer = setTimeout(step, Math.max(10, FRAME_MS - (performance.now() - began)));
  };
  const play = (yes) => {
    clearTimeout(timer);
    timer = yes ? setTimeout(step, 0) : 0;
    $("play").textContent = yes ? "Stop particles" : "Move particles";
    $("play").setAttribute("aria-pressed", String(yes));
  };

  /* ---- from where ---- */

  const camera = () => view.layout.scene.camera;
  const scene = () => view._fullLayout.scene._scene;
  const aim = (eye, up) => Plotly.relayout(view, {
    "scene.camera": { ...camera(), eye: vector(eye), up: vector(up), center: vector([0, 0, 0]) },
    "scene.aspectratio": { ...figure.layout.scene.aspectratio },
  });
  /* The vessel fills the frame: in parallel projection what is seen grows with the sides of the scene. */
  const fit = async () => {
    const { x, y, z } = whole[WALL], axes = view.layout.scene, sides = figure.layout.scene.aspectratio;
    const eye = unit(list(camera().eye)), right = unit(cross(list(camera().up), eye)), up = cross(eye, right);
    const put = (values, axis) => {
      const [low, high] = axes[`${axis}axis`].range;
      return Array.from(values, (value) => ((value - low) / (high - low) - 0.5) * sides[axis]);
    };
    const placed = [put(x, "x"), put(y, "y"), put(z, "z")];
    const ends = [right, up, eye].map((way) => {
      let low = Infinity, high = -Infinity;
      for (let k = 0; k < x.length; k += 1) {
        const at = way[0] * placed[0][k] + way[1] * placed[1][k] + way[2] * placed[2][k];
        low = Math.min(low, at);
        high = Math.max(high, at);
      }
      return [low, high];
    });
    const wide = view.clientWidth / view.clientHeight;
    const factor = 2 * FILLED / Math.max((ends[0][1] - ends[0][0]) / wide, ends[1][1] - ends[1][0]);
    const middle = ends.map(([low, high]) => factor * (low + high) / 2);
    const away = EYE + factor * (ends[2][1] - ends[2][0]); /* outside the vessel, of which nothing is cut off then */
    const centre = right.map((part, k) => part * middle[0] + up[k] * middle[1]);
    await Plotly.relayout(view, {
      "scene.aspectratio": vector(["x", "y", "z"].map((axis) => factor * sides[axis])),
      "scene.camera": { ...camera(), center: vector(centre),
        eye: vector(list(camera().eye).map((part, k) => away * eye[k] + centre[k])) },
    });
  };
  const look = async (side) => {
    if (side in SIDES) await aim(SIDES[side][0].map((part) => EYE * part), SIDES[side][1]);
    else await aim(list(start.eye), list(start.up));
    await fit();
    turned = false;
  };

  /* Rodrigues' rotation of a vector about a unit axis. */
  const turn = (a, axis, angle) => {
    const across = cross(axis, a), along = dot(axis, a) * (1 - Math.cos(angle));
    return a.map((part, k) => part * Math.cos(angle) + across[k] * Math.sin(angle) + axis[k] * along);
  };
  const KEYS = { ArrowLeft: [1, -STEP], ArrowRight: [1, STEP], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const press = async (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    const [upright, angle] = KEYS[event.key], centre = list(camera().center);
    const eye = list(camera().eye).map((part, k) => part - centre[k]);
    const right = unit(cross(list(camera().up), eye)), up = unit(cross(eye, right));
    const axis = upright ? up : right.map((part) => -part);
    await aim(turn(eye, axis, angle), turn(up, axis, angle));
    await fit();
  };

  /* ---- reset, pictures ---- */

  const reset = async () => {
    Object.assign(shown, { choice: "0", percentile: null, log: null, side: "", depth: 0.5 });
    for (const [id, value] of [["quantity", "0"], ["side", "initial view"], ["cut", ""], ["depth", "50"]]) $(id).value = value;
    $("lines").checked = $("particles").checked = false;
    play(false);
    await redraw();
    await look("");
  };
  const picture = () => {
    scene().glplot.redraw();
    return compose(view.querySelector("canvas"), $("labels"), legend());
  };
  const save = () => {
    const link = document.createElement("a");
    link.href = picture();
    link.download = `${document.title}.png`;
    link.click();
  };

  /* ---- the page scrolls until the reader takes the view: a click frees the wheel, a tap the fingers ---- */

  let taken = false, turned = false;
  const take = (yes) => {
    taken = yes;
    const fingers = matchMedia("(pointer: coarse)").matches;
    $("wake").hidden = !fingers || yes;
    $("rest").hidden = !fingers || !yes;
  };
  const guard = () => {
    const frame = $("frame");
    frame.addEventListener("wheel", (event) => { if (!taken) event.stopPropagation(); }, { capture: true });
    view.addEventListener("pointerdown", () => { turned = true; take(true); }, { capture: true });
    frame.addEventListener("mouseleave", () => { if (!matchMedia("(pointer: coarse)").matches) take(false); });
    $("wake").addEventListener("click", () => take(true));
    $("rest").addEventListener("click", () => take(false));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") take(false); });
    take(false);
  };
  const listen = () => {
    const on = (id, event, action) => $(id).addEventListener(event, (given) => { action(given.target); });
    on("quantity", "change", ({ value }) => {
      behind = null;
      Object.assign(shown, { choice: value, percentile: null, log: null });
      redraw();
    });
    on("percentile", "input", ({ value }) => { shown.percentile = Number(value); redraw(); });
    on("log", "change", ({ checked }) => { shown.log = checked; redraw(); });
    on("cut", "change", ({ value }) => { shown.side = value; redraw(); });
    on("depth", "input", ({ value }) => { shown.depth = Number(value) / 100; redraw(); });
    on("lines", "change", ({ checked }) => layer(checked));
    on("particles", "change", ({ checked }) => { play(false); if (checked) showFrame(); layer(checked); });
    on("play", "click", () => play(!timer));
    on("side", "change", ({ value }) => look(value));
    on("reset", "click", reset);
    on("save", "click", save);
    view.addEventListener("keydown", press);
    addEventListener("beforeprint", () => { $("printed").src = picture(); });
    new ResizeObserver(() => { if (!turned) fit(); }).observe(view);
  };

  const start = figure.layout.scene.camera;
  const begin = async () => {
    const probe = document.createElement("canvas");
    if (!(probe.getContext("webgl2") || probe.getContext("webgl"))) {
      fail("This browser draws nothing in three dimensions here (WebGL is off); the pictures on this page show the same.");
      return;
    }
    quantities.forEach((quantity, k) => option($("quantity"), String(k), quantity.label));
    option($("quantity"), "glass", "nothing: a wall of glass");
    ["initial view", ...Object.keys(SIDES)].forEach((side) => option($("side"), side, side));
    option($("cut"), "", "nothing");
    Object.keys(SIDES).forEach((side) => option($("cut"), side, `what lies towards ${side === "front" || side === "back"
      || side === "head" ? `the ${side}` : side === "feet" ? "the feet" : side}`));
    $("particles").closest("label").hidden = !moving;
    $("bar").textContent = told.bar;
    await Plotly.newPlot(view, figure.data, structuredClone(figure.layout), { displayModeBar: false, responsive: true });
    const plot = scene().glplot, render = plot.onrender;
    plot.onrender = () => { render(); placeLabels($("labels"), told.labels, scene()); };
    await redraw();
    await look("");
    listen();
    guard();
    document.body.dataset.ready = "yes";
  };
  begin().catch((error) => fail(`The view could not be drawn: ${error.message}`));
})();
