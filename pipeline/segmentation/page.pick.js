"use strict";
// What a page without a mask adds: the box of the region of interest, and what would grow in it from the seeds, which
// the worker of page.grow.js finds. page.surface.js shows its surface, page.case.js writes the case file.

const RULES = facts.grow;
const GRAB = 7; // pixels from an edge of the box
const LEAST_BOX = 4; // voxels along each axis that the filter needs
const SIDES = [["right", "left"], ["anterior", "posterior"], ["feet", "head"]]; // of the faces of the box, by axis
const FAR_MM = 5; // from the surface: an opening that was marked on another one
const LEAST_VOXELS = 100; // of a vessel, as segment.py
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const FLOW = "put the flow in mL/s here"; // refused when the file is read, as facts.path is
const ORDER = ["vessel", "accept", "input", "load", "filter", "segment", "surface", "voxelize", "decompose", "solve"];
const ROLES = ["inlet", "outlet"];

const box = { low: [0, 0, 0], high: [...facts.size] }; // voxels of the page, the last ones excluded
const openings = []; // { name, role, near_mm, flow_ml_s, away: mm from the surface, rest: other keys of the case file }
let held = null; // what of the box is dragged: { axis: "low" or "high" }
let grown = null; // { told, parts, reached, wide, box } of the worker
let worker, posed = "", asked = 0, answered = 0;

const levelOf = (value) => Math.max(Math.ceil((value - facts.lowest) / facts.step - 1e-9), 0);
const short = (value) => String(Number(value.toPrecision(4)));
const percent = (part) => `${Math.round(100 * part)}%`;
const whole = () => box.low.every((n) => n === 0) && box.high.every((n, axis) => n === facts.size[axis]);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const ofKind = (kind) => state.points.filter((point) => point.kind === kind);
const toPlaces = (index) => index.map((n, axis) => n * SPACING[axis]); // mm along the page's axes, from its first voxel
const fromPlaces = (place) => toMm(place.map((mm, axis) => mm / SPACING[axis]));

// ---- growing ----

function problem() {
  return {
    box: { low: [...box.low], high: [...box.high] },
    seeds: ofKind("seed").map(({ mm }) => toVoxel(mm).map(Math.round)),
    planes: ofKind("cut").map(({ mm, normal, radius_mm }) => ({
      centre: toPlaces(toVoxel(mm)),
      normal: [0, 1, 2].map((axis) => normal.reduce((sum, n, k) => sum + n * facts.direction[k][axis], 0)),
      radius_mm,
    })),
  };
}

function changed() { // one question at a time; what changes meanwhile is asked when the answer is there
  listFound();
  if (asked !== answered) return;
  const now = problem(), key = JSON.stringify(now);
  if (!now.seeds.length || !state.coloured) {
    if (grown) { grown = null; posed = ""; paintSolid(); }
    return;
  }
  const question = { number: ++asked, level: levelOf(state.threshold), key };
  worker.postMessage({ ...question, problem: key === posed ? null : now });
  posed = key;
}

function takeIn({ data }) {
  answered = data.number;
  grown = { ...data, reached: data.reached ?? grown?.reached, key: posed };
  measureOpenings();
  listFound();
  paintSolid();
  refresh();
  const now = JSON.stringify(problem());
  if (now !== posed || data.told.level !== levelOf(state.threshold)) changed();
}

function grownOf(view) { // whether a pixel of the view's slice is in the region
  const none = () => false;
  if (!grown?.reached || !state.coloured) return none;
  const { low, high } = grown.box, { across, down, along } = view;
  if (view.slice < low[along] || view.slice >= high[along]) return none;
  const level = levelOf(state.threshold), strides = [1, grown.wide[0], grown.wide[0] * grown.wide[1]];
  const offsets = low.map((n, axis) => (1 - n) * strides[axis]);
  const start = offsets[0] + offsets[1] + offsets[2] + view.slice * strides[along];
  return (at, u, v) => u >= low[across] && u < high[across] && v >= low[down] && v < high[down]
    && grown.reached[start + u * strides[across] + v * strides[down]] > level;
}

function proposedThreshold(voxel) { // half way from the seed to what is darker around it, as automatic.py begins
  const reach = SPACING.map((mm) => Math.ceil(15 / mm)), own = [];
  const near = (range, action) => {
    const [low, high] = [-1, 1].map((sign) => limit(voxel.map((n, axis) => n + sign * range[axis])));
    for (let z = low[2]; z <= high[2]; z++)
      for (let y = low[1]; y <= high[1]; y++)
        for (let x = low[0]; x <= high[0]; x++) action(intensity(levels[offset([x, y, z])]));
  };
  near([1, 1, 1], (value) => own.push(value));
  const level = own.sort((a, b) => a - b)[own.length >> 1], darker = [];
  near(reach, (value) => { if (value < level && value >= (RULES.dark ?? -Infinity)) darker.push(value); });
  if (!darker.length) return level;
  darker.sort((a, b) => a - b);
  let lower = (level + darker[0]) / 2;
  for (let n = 0; n < 5; n++) {
    const count = Math.max(darker.findLastIndex((value) => value <= lower) + 1, 1);
    lower = (level + darker[count >> 1]) / 2;
  }
  return Math.min(lower, intensity(levels[offset(voxel)]));
}

// ---- what is told of it, in the words of the stage ----

const lowerText = () => `segment.lower = ${+state.threshold.toFixed(DECIMALS)}`;
const seedName = (n) => `segment.seeds_mm[${n}]`;
const seedPlace = (n) => `(${ofKind("seed")[n].mm.map((x) => x.toFixed(1)).join(", ")}) mm`;

function doubts() {
  const { told } = grown;
  const found = [...told.outside.map(outsideDoubt), ...told.low.map(lowDoubt)];
  if (!told.first) return found;
  const judged = told.around ? [contrastDoubt, leakDoubt] : told.flooded ? [] : [emptyDoubt];
  const whole = [sizeDoubt, borderDoubt, ...judged].map((doubt) => doubt(told));
  return [...found, ...told.apart.map((n) => apartDoubt(n, told)), ...whole.filter(Boolean), ...leftDoubts(told)];
}

function outsideDoubt(n) {
  return `${seedName(n)}: at ${seedPlace(n)} (LPS) it lies outside the region of interest: move the seed, or widen the`
    + " box";
}

function lowDoubt(n) {
  const own = intensity(levels[offset(limit(toVoxel(ofKind("seed")[n].mm)))]), { upper } = RULES;
  if (own >= state.threshold && (upper === null || own <= upper))
    return `${seedName(n)} lies on a cut plane (segment.cut_planes): move one of the two`;
  return `${seedName(n)}: at ${seedPlace(n)} the intensity is ${own.toFixed(1)}, it must be at least ${lowerText()}`
    + `${upper === null ? "" : ` and at most segment.upper = ${upper}`}: change the threshold or move the seed`;
}

function apartDoubt(n, { first }) {
  return `${seedName(n)}: at ${lowerText()} no path of voxels in range leads to it from ${seedName(0)}, whose component`
    + ` has ${first} voxels, and the lumen must be one component: lower the threshold, smooth more (filter), or leave`
    + " one of the seeds out";
}

function sizeDoubt({ first }) {
  return first < LEAST_VOXELS && `${lowerText()}: only ${first} voxels at the seed are in range, a vessel has at least`
    + ` ${LEAST_VOXELS}: lower the threshold, or move the seed from a speckle of noise into the vessel`;
}

function borderDoubt({ contact }) {
  const faces = SIDES.flatMap((names, axis) => names.map((name, end) => [name, contact[axis][end]]));
  const [face, part] = faces.reduce((most, each) => (each[1] > most[1] ? each : most)), most = RULES.border_fraction;
  return part > most && `${lowerText()}: the mask covers ${percent(part)} of the ${face} face of the region, more than`
    + ` segment.border_fraction = ${percent(most)}. The run lets vessels pass that the border cuts, and refuses a leak into`
    + " the surroundings: look at the face; if it has leaked, raise the threshold";
}

function emptyDoubt({ first }) {
  return `${lowerText()}: the mask of ${first} voxels leaves no surroundings in the region: raise the threshold, or`
    + " widen the region (filter)";
}

function contrastDoubt({ lumen, spread, median, around, level }) { // as leak.check_contrast, before any smoothing
  const at = (each) => short(intensity(each)), wide = (levels) => String(+(levels * facts.step).toPrecision(3));
  const toNoise = (median - around.quartile) / around.noise, reference = Math.min(level, (lumen + around.median) / 2);
  const needed = !RULES.ct && toNoise >= RULES.clear_contrast ? RULES.texture_to_spread : RULES.lumen_to_spread;
  const above = (lumen - reference) / spread;
  const reason = toNoise < RULES.contrast_to_noise
    ? `the mask's median ${at(median)} is ${toNoise.toFixed(1)} times the noise (${wide(around.noise)}) above its`
      + ` brighter surroundings (${at(around.quartile)}), at least ${RULES.contrast_to_noise} times are needed`
    : above < needed
      ? `the level at the seed ${at(lumen)} is ${above.toFixed(1)} times its own spread (${wide(spread)}) above`
        + ` ${at(reference)}, the lower of the threshold and half way to its surroundings (${at(around.median)}), at`
        + ` least ${needed} times are needed`
      : RULES.ct && intensity(lumen) < RULES.least_ct
        ? `the level at the seed is ${intensity(lumen).toFixed(0)} HU; blood without contrast agent has 30 to 70 HU,`
          + ` with it at least ${RULES.least_ct} HU are needed`
        : "";
  return reason && `no contrast-filled vessel at the seed: at ${lowerText()} ${reason}: choose a series with contrast`
    + " agent, correct the seed or the threshold, or smooth more (filter.smoothing: nonlocal)";
}

function leakDoubt({ leak, lumen, around }) {
  if (!leak) return "";
  const { fault, limit: most, below, above, clear } = leak, at = (level) => short(intensity(level));
  const advice = clear === null
    ? "no higher threshold up to the lumen's level is clear of it, so try a lower one or correct the seed"
    : `raise segment.lower to ${Math.ceil(intensity(clear))}`;
  const times = (below.voxels / Math.max(above.voxels, 1)).toFixed(1);
  return `${lowerText()} ${fault}: between the thresholds ${at(above.level)} and ${at(below.level)} the mask grows from`
    + ` ${above.voxels} to ${below.voxels} voxels, ${times} times (limit`
    + ` ${+most.toPrecision(3)}, from segment.leak_growth; lumen ${at(lumen)}, surroundings ${at(around.median)}):`
    + ` ${advice}, narrow the region to the vessel, part it from what it touches (segment.cut_planes), or smooth more`
    + " (filter); if what joins is a branch of the vessel, give a seed in it";
}

function leftDoubts({ left = [] }) { // as left_vessel.py
  const at = ({ voxel, what }) => `at (${toMm(voxel).map((x) => x.toFixed(1)).join(", ")}) mm: ${what}`;
  return left.map((each) => {
    const surely = each.clear && RULES.beyond === "refuse", least = each.radius_mm + RULES.above_throat * each.pitch;
    const remedy = `mark a cut plane there (segment.cut_planes), close what is as narrow (segment.least_radius_mm:`
      + ` ${closing(least)}), or narrow the box; if it is the vessel, give a seed in it`;
    return surely ? `${lowerText()}: the mask has left the vessel ${at(each)}: the run refuses it; ${remedy}`
      : `${lowerText()}: the mask may have left the vessel ${at(each)}: look there; if it has, ${remedy}`;
  });
}

function closing(radius_mm) { // rounded up, as left_vessel.py
  const tens = 10 ** Math.max(1, 1 - Math.floor(Math.log10(radius_mm)));
  return Math.ceil(radius_mm * tens) / tens;
}

function partedOff() {
  return RULES.least_radius_mm === null ? "" : "; the run leaves out what hangs on it by places narrower than"
    + ` segment.least_radius_mm = ${RULES.least_radius_mm}`;
}

function byItself() {
  return state.automatic ? ", about where the run puts the threshold by itself" : "";
}

function otherMethod() {
  const { method = "auto" } = facts.case.segment ?? {};
  if (method === "auto") return "; where one threshold misses the volume the run goes by the levels near each place";
  return method === "threshold" ? "" : `; the run takes the method ${method}, which may find another lumen`;
}

function listFound() {
  const size = box.high.map((n, axis) => ((n - box.low[axis]) * SPACING[axis]).toFixed(0)).join(" \u00d7 ");
  $("box-size").textContent = `${size} mm${whole() ? ", all that is shown" : ""}`;
  const waits = asked !== answered, { told } = grown ?? {};
  const ml = told && (told.count + told.filled) * SPACING.reduce((a, b) => a * b) / 1000;
  $("volume").textContent = told ? `${+ml.toPrecision(3)} mL` : "\u2013";
  $("volume").classList.toggle("waits", waits);
  $("volume-note").textContent = waits ? "growing \u2026" : told
    ? `${told.count + told.filled} voxels from ${grey(state.threshold)} on${byItself()}, before any smoothing${otherMethod()}${partedOff()}`
    : ofKind("seed").length ? "choose a threshold" : "no seed yet";
  if (waits) return;
  const found = told ? doubts() : [];
  $("doubts").replaceChildren(...found.map((text) => {
    const line = document.createElement("p");
    line.className = "warning";
    line.textContent = text;
    return line;
  }));
  $("fine").hidden = !told || found.length > 0;
}

// ---- the box ----

function corners(view) { // of the box on the page: [left, top], [right, bottom]
  const index = (which) => [0, 1, 2].map((axis) => box[which][axis] - 0.5);
  const [a, b] = [view.toPage(index("low")), view.toPage(index("high"))];
  return [[Math.min(a[0], b[0]), Math.min(a[1], b[1])], [Math.max(a[0], b[0]), Math.max(a[1], b[1])]];
}

const crosses = (view) => view.slice >= box.low[view.along] && view.slice < box.high[view.along];

function edgesAt(view, x, y) {
  if (!crosses(view)) return null;
  const [[left, top], [right, bottom]] = corners(view), found = {};
  const near = (a, b) => Math.abs(a - b) <= GRAB, between = (n, low, high) => n >= low - GRAB && n <= high + GRAB;
  if (between(y, top, bottom)) {
    if (near(x, right)) found[view.across] = "high";
    else if (near(x, left)) found[view.across] = "low";
  }
  if (between(x, left, right)) {
    if (near(y, bottom)) found[view.down] = view.flip ? "low" : "high";
    else if (near(y, top)) found[view.down] = view.flip ? "high" : "low";
  }
  return Object.keys(found).length ? found : null;
}

function cursor(view, x, y) {
  const edges = edgesAt(view, x, y);
  if (!edges) return "";
  if (!(view.down in edges)) return "ew-resize";
  if (!(view.across in edges)) return "ns-resize";
  const [left, top] = [edges[view.across] === "low", (edges[view.down] === "low") !== view.flip];
  return left === top ? "nwse-resize" : "nesw-resize";
}

function grab(view, x, y) {
  held = edgesAt(view, x, y);
  return held !== null;
}

function drag(view, voxel) {
  for (const [axis, end] of Object.entries(held)) {
    const edge = Math.round(voxel[axis] + 0.5), least = Math.min(LEAST_BOX, facts.size[axis]);
    if (end === "low") box.low[axis] = clamp(edge, 0, box.high[axis] - least);
    else box.high[axis] = clamp(edge, box.low[axis] + least, facts.size[axis]);
  }
  changed();
}

function setBox(low, high) {
  low.forEach((n, axis) => {
    const least = Math.min(LEAST_BOX, facts.size[axis]);
    box.low[axis] = clamp(Math.floor(n), 0, facts.size[axis] - least);
    box.high[axis] = clamp(Math.ceil(high[axis]), box.low[axis] + least, facts.size[axis]);
  });
  changed();
  refresh();
}

function boxHere() { // of the width that is typed, about the crosshair
  const half = SPACING.map((mm) => (Number($("box-width").value) || 60) / 2 / mm);
  setBox(state.cursor.map((n, axis) => n - half[axis]), state.cursor.map((n, axis) => n + half[axis] + 1));
}

function boxAround() { // what grows, and 5 mm
  const bounds = grown?.told.bounds;
  if (!bounds) return;
  const margin = SPACING.map((mm) => 5 / mm);
  setBox(bounds.low.map((n, axis) => grown.box.low[axis] + n - margin[axis]),
    bounds.high.map((n, axis) => grown.box.low[axis] + n + margin[axis]));
}

function draw(view) {
  const { context } = view, [[left, top], [right, bottom]] = corners(view);
  context.fillStyle = "#000000a8";
  if (!crosses(view)) context.fillRect(0, 0, view.width, view.height);
  else {
    context.beginPath();
    context.rect(0, 0, view.width, view.height);
    context.rect(left, top, right - left, bottom - top);
    context.fill("evenodd");
    context.strokeStyle = COLOUR.accent;
    context.lineWidth = 1;
    context.strokeRect(left, top, right - left, bottom - top);
    context.fillStyle = COLOUR.accent;
    for (const x of [left, (left + right) / 2, right])
      for (const y of [top, (top + bottom) / 2, bottom])
        if (x !== (left + right) / 2 || y !== (top + bottom) / 2) context.fillRect(x - 3, y - 3, 6, 6);
  }
  if (state.marks) drawMarks(view);
}

function drawMarks(view) { // openings near the slice, and the lines in which cut planes meet it
  const { context, along } = view;
  for (const { name, near_mm } of openings) {
    const voxel = toVoxel(near_mm);
    if (Math.abs(voxel[along] - view.slice) * SPACING[along] > 2) continue;
    const [x, y] = view.toPage(voxel);
    ring(context, x, y, name);
  }
  for (const { centre, normal, radius_mm } of problem().planes) {
    const length = Math.hypot(...normal), unit = normal.map((n) => n / length);
    const rest = Math.hypot(unit[view.across], unit[view.down]);
    const away = (view.slice * SPACING[along] - centre[along]) * unit[along];
    if (rest < 1e-6 || radius_mm === null) continue;
    const half = Math.sqrt(radius_mm ** 2 - (away / rest) ** 2 - (view.slice * SPACING[along] - centre[along]) ** 2);
    if (!(half > 0)) continue;
    const ends = [-half, half].map((t) => {
      const place = [...centre];
      place[view.across] += (-away * unit[view.across] / rest - t * unit[view.down]) / rest;
      place[view.down] += (-away * unit[view.down] / rest + t * unit[view.across]) / rest;
      return view.toPage(place.map((mm, axis) => mm / SPACING[axis]));
    });
    context.strokeStyle = COLOUR.cut;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(...ends[0]);
    context.lineTo(...ends[1]);
    context.stroke();
  }
}

function ring(context, x, y, text) {
  for (const [style, width] of [["black", 4], [COLOUR.coronal, 2]]) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.stroke();
    context.strokeStyle = "black";
    context.lineWidth = 3;
    context.strokeText(text, x + 10, y + 4);
  }
  context.fillStyle = COLOUR.ink;
  context.fillText(text, x + 10, y + 4);
}

// ---- the start ----

function begin() {
  worker = new Worker(URL.createObjectURL(new Blob([$("grower").textContent], { type: "text/javascript" })));
  worker.onmessage = takeIn;
  worker.onerror = (event) => fail(new Error(event.message));
  worker.postMessage({ image: {
    levels, size: facts.size, spacing: SPACING, rules: RULES, lowest: facts.lowest, step: facts.step,
  } });
  const { segment = {}, surface = {} } = facts.case;
  state.coloured = segment.lower != null;
  for (const mm of segment.seeds_mm ?? []) state.points.push({ kind: "seed", mm });
  for (const mm of segment.background_mm ?? []) state.points.push({ kind: "background", mm });
  for (const { point_mm, normal, radius_mm = null } of segment.cut_planes ?? [])
    state.points.push({ kind: "cut", mm: point_mm, normal, radius_mm });
  for (const { name, role, near_mm, ...rest } of surface.openings ?? [])
    openings.push({ name, role, near_mm, flow_ml_s: role === "inlet" ? givenFlow(name) : null, rest });
  const [first] = ofKind("seed");
  if (first) {
    state.cursor = limit(toVoxel(first.mm));
    state.automatic = !state.coloured; // the run looks for the threshold: the case file stays without one
    added(first);
  }
  $("box-here").onclick = boxHere;
  $("box-around").onclick = boxAround;
  $("box-whole").onclick = () => setBox([0, 0, 0], facts.size);
  $("download").onclick = download;
  listenToSolid();
  setMode("turn");
  listPoints();
  listOpenings();
}

function added({ kind, mm }) { // the first seed brings a threshold with it
  if (kind !== "seed" || state.coloured) return;
  state.threshold = proposedThreshold(limit(toVoxel(mm)));
  state.coloured = true;
}

picking = { start: begin, changed, added, draw, grownOf, grab, cursor, drag, caseFile, addRadius };
