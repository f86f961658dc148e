"use strict";
// The surface of what would grow, to turn and to mark openings and cut planes on: faces of voxels, painted one after
// another with their depth; the face under each pixel is remembered.

const solid = { yaw: 0.5, pitch: 0.25, zoom: 1.3, mode: "turn", faceAt: null, light: null };

function axes() { // to the right, upwards, towards the eye, along the page's axes
  const { yaw, pitch } = solid;
  const right = [Math.cos(yaw), Math.sin(yaw), 0];
  const toward = [Math.sin(yaw) * Math.cos(pitch), -Math.cos(yaw) * Math.cos(pitch), Math.sin(pitch)];
  const up = [
    toward[1] * right[2] - toward[2] * right[1], toward[2] * right[0] - toward[0] * right[2],
    toward[0] * right[1] - toward[1] * right[0],
  ];
  return { right, up, toward };
}

function lens() { // takes places in mm to pixels and depth
  const { width, height } = $("solid"), { low, high } = grown.told.bounds, at = grown.box.low;
  const ends = [low, high].map((index) => toPlaces(index.map((n, axis) => n + at[axis] - 0.5)));
  const middle = [0, 1, 2].map((axis) => (ends[0][axis] + ends[1][axis]) / 2);
  const diagonal = Math.hypot(...[0, 1, 2].map((axis) => ends[1][axis] - ends[0][axis]));
  const scale = 0.92 * Math.min(width, height) / diagonal * solid.zoom, { right, up, toward } = axes();
  const project = (place) => {
    const away = [place[0] - middle[0], place[1] - middle[1], place[2] - middle[2]];
    return [width / 2 + scale * dot(away, right), height / 2 - scale * dot(away, up), dot(away, toward)];
  };
  return { width, height, scale, right, up, toward, project };
}

function stamp(side, { scale, right, up, toward }) { // pixels that a face of a voxel covers, about its middle
  const axis = side >> 1, [b, c] = [0, 1, 2].filter((n) => n !== axis);
  const half = (n) => [SPACING[n] / 2 * scale * right[n], -SPACING[n] / 2 * scale * up[n], SPACING[n] / 2 * toward[n]];
  const [p, q] = [half(b), half(c)], area = p[0] * q[1] - p[1] * q[0], pixels = [[0, 0, 0]];
  if (Math.abs(area) < 1e-9) return pixels;
  const reach = [0, 1].map((n) => Math.ceil(Math.abs(p[n]) + Math.abs(q[n]) + 0.5));
  const slack = [0.6 * Math.hypot(q[0], q[1]) / Math.abs(area), 0.6 * Math.hypot(p[0], p[1]) / Math.abs(area)];
  for (let y = -reach[1]; y <= reach[1]; y++)
    for (let x = -reach[0]; x <= reach[0]; x++) {
      const s = (x * q[1] - y * q[0]) / area, t = (p[0] * y - p[1] * x) / area;
      if (Math.abs(s) > 1 + slack[0] || Math.abs(t) > 1 + slack[1] || (x === 0 && y === 0)) continue;
      pixels.push([x, y, clamp(s, -1, 1) * p[2] + clamp(t, -1, 1) * q[2]]);
    }
  return pixels;
}

function paintSolid() {
  const canvas = $("solid"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [canvas.clientWidth, canvas.clientHeight];
  solid.faceAt = null;
  context.font = "12px system-ui, sans-serif";
  $("solid-note").hidden = Boolean(grown?.parts);
  $("solid-note").textContent = grown?.told.bounds
    ? "too much grows to show its surface: raise the threshold, or draw the box closer"
    : "the surface appears when something grows";
  if (!grown?.parts) return;
  const view = lens(), { width, height } = view, { centres, normals, sides } = grown.parts;
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const depth = new Float32Array(width * height).fill(-Infinity), faceAt = new Int32Array(width * height).fill(-1);
  const seen = (side) => (side % 2 ? -1 : 1) * view.toward[side >> 1] > 0;
  const stamps = [0, 1, 2, 3, 4, 5].map((side) => (seen(side) ? stamp(side, view) : null));
  const light = [0, 1, 2].map((n) => 0.8 * view.toward[n] - 0.35 * view.right[n] + 0.45 * view.up[n]);
  for (let face = 0, k = 0; face < sides.length; face++, k += 3) {
    const covered = stamps[sides[face]];
    if (!covered) continue;
    const [x0, y0, near] = view.project([centres[k], centres[k + 1], centres[k + 2]]);
    const left = Math.round(x0), top = Math.round(y0);
    const facing = normals[k] * light[0] + normals[k + 1] * light[1] + normals[k + 2] * light[2];
    const bright = 0.3 + 0.7 * clamp(facing, 0, 1);
    const colour = (255 << 24 | 60 * bright << 16 | 165 * bright << 8 | 255 * bright) >>> 0;
    for (const [dx, dy, dz] of covered) {
      const x = left + dx, y = top + dy, at = x + y * width;
      if (x < 0 || y < 0 || x >= width || y >= height || depth[at] >= near + dz) continue;
      depth[at] = near + dz;
      pixels[at] = colour;
      faceAt[at] = face;
    }
  }
  context.putImageData(image, 0, 0);
  solid.faceAt = faceAt;
  paintOverSolid(context, view, depth);
}

function paintOverSolid(context, view, depth) {
  const hidden = ([x, y, near]) => depth[Math.round(x) + Math.round(y) * view.width] > near + 2;
  const atVoxel = (mm) => view.project(toPlaces(toVoxel(mm)));
  for (const { mm, kind } of state.points.filter((point) => point.kind !== "cut")) {
    const [x, y] = atVoxel(mm);
    context.fillStyle = COLOUR[kind];
    context.beginPath();
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.fill();
  }
  for (const { centre, normal, radius_mm } of problem().planes) {
    if (radius_mm === null) continue;
    const length = Math.hypot(...normal), unit = normal.map((n) => n / length);
    const other = Math.abs(unit[0]) < 0.7 ? [1, 0, 0] : [0, 1, 0];
    const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    const u = cross(unit, other).map((n, _, all3) => n / Math.hypot(...all3)), v = cross(unit, u);
    context.beginPath();
    for (let n = 0; n < 48; n++) {
      const [c, s] = [Math.cos(n * Math.PI / 24), Math.sin(n * Math.PI / 24)];
      const [x, y] = view.project(centre.map((mm, axis) => mm + radius_mm * (c * u[axis] + s * v[axis])));
      if (n) context.lineTo(x, y); else context.moveTo(x, y);
    }
    context.closePath();
    context.fillStyle = "#b79bf566";
    context.strokeStyle = COLOUR.cut;
    context.lineWidth = 1.5;
    context.fill();
    context.stroke();
  }
  for (const { name, near_mm } of openings) {
    const at = atVoxel(near_mm);
    context.globalAlpha = hidden(at) ? 0.45 : 1;
    ring(context, at[0], at[1], name);
  }
  context.globalAlpha = 1;
  context.fillStyle = COLOUR.faint;
  for (const [n, [low, high]] of ["RL", "AP", "FH"].entries()) {
    const [dx, dy] = [22 * view.right[n], -22 * view.up[n]], [x, y] = [34, view.height - 34];
    if (Math.hypot(dx, dy) < 6) continue;
    context.fillText(high, x + dx - 4, y + dy + 4);
    context.fillText(low, x - dx - 4, y - dy + 4);
  }
}

function faceUnder(x, y) { // of a place on the canvas; the nearest within some pixels
  const { width, height } = $("solid");
  for (let reach = 0; reach <= 6; reach++)
    for (let dy = -reach; dy <= reach; dy++)
      for (let dx = -reach; dx <= reach; dx++) {
        const [u, v] = [Math.round(x) + dx, Math.round(y) + dy];
        if (u < 0 || v < 0 || u >= width || v >= height) continue;
        const face = solid.faceAt?.[u + v * width] ?? -1;
        if (face >= 0) return face;
      }
  return -1;
}

const triple3 = (array, face) => [array[3 * face], array[3 * face + 1], array[3 * face + 2]];

function inRegion(place) {
  const index = place.map((mm, axis) => Math.round(mm / SPACING[axis]));
  const { low, high } = grown.box;
  if (index.some((n, axis) => n < low[axis] || n >= high[axis])) return false;
  const at = index.map((n, axis) => n - low[axis] + 1);
  return grown.reached[at[0] + grown.wide[0] * (at[1] + grown.wide[1] * at[2])] > levelOf(state.threshold);
}

function axisAt(place, reach) { // of the vessel: the direction that the normals of the wall around have least of
  const { centres, normals } = grown.parts, sums = [[0, 0, 0], [0, 0, 0], [0, 0, 0]];
  for (let k = 0; k < centres.length; k += 3) {
    if (Math.hypot(centres[k] - place[0], centres[k + 1] - place[1], centres[k + 2] - place[2]) > reach) continue;
    for (let a = 0; a < 3; a++) for (let b = 0; b < 3; b++) sums[a][b] += normals[k + a] * normals[k + b];
  }
  const trace = sums[0][0] + sums[1][1] + sums[2][2];
  let axis = [0.31, 0.52, 0.79];
  for (let n = 0; n < 200; n++) { // power iteration: the smallest eigenvalue of the sums is the largest of trace - sums
    const next = axis.map((x, a) => trace * x - dot(sums[a], axis)), length = Math.hypot(...next) || 1;
    axis = next.map((x) => x / length);
  }
  return axis;
}

function vesselAt(face) { // its middle, axis and width where a face is
  const start = triple3(grown.parts.centres, face), inward = triple3(grown.parts.normals, face).map((n) => -n);
  const step = Math.min(...SPACING) / 2, ahead = (t) => start.map((mm, axis) => mm + t * inward[axis]);
  let depth = step;
  while (depth < 30 && inRegion(ahead(depth))) depth += step;
  const inside = ahead(depth / 2), reach = clamp(depth, 2.5 * Math.max(...SPACING), 30), axis = axisAt(inside, reach);
  const slab = [], first = inside.map((mm, k) => Math.ceil((mm - 1.5 * reach) / SPACING[k]));
  for (let z = first[2]; z * SPACING[2] <= inside[2] + 1.5 * reach; z++)
    for (let y = first[1]; y * SPACING[1] <= inside[1] + 1.5 * reach; y++)
      for (let x = first[0]; x * SPACING[0] <= inside[0] + 1.5 * reach; x++) {
        const place = toPlaces([x, y, z]), away = place.map((mm, k) => mm - inside[k]);
        const across = Math.hypot(...away) <= 1.5 * reach && Math.abs(dot(away, axis)) <= Math.max(...SPACING);
        if (across && inRegion(place)) slab.push(place);
      }
  if (!slab.length) return { middle: inside, axis, radius_mm: reach };
  const middle = [0, 1, 2].map((k) => slab.reduce((sum, place) => sum + place[k], 0) / slab.length);
  const wide = Math.max(...slab.map((place) => Math.hypot(...place.map((mm, k) => mm - middle[k]))));
  return { middle, axis, radius_mm: 1.25 * wide + Math.max(...SPACING) };
}

function clickSolid(x, y) {
  const face = faceUnder(x, y);
  if (face < 0) return;
  const place = triple3(grown.parts.centres, face);
  goTo(place.map((mm, axis) => mm / SPACING[axis]));
  if (solid.mode === "opening") addOpening(fromPlaces(place));
  if (solid.mode === "cut") {
    const { middle, axis, radius_mm } = vesselAt(face);
    const normal = facts.direction.map((row) => dot(row, axis));
    state.points.push({ kind: "cut", mm: fromPlaces(middle), normal, radius_mm: +radius_mm.toFixed(1) });
    listPoints();
    setMode("turn");
  }
}

function setMode(mode) {
  solid.mode = mode;
  for (const button of all("[data-mode]")) button.classList.toggle("on", button.dataset.mode === mode);
  $("solid").style.cursor = mode === "turn" ? "grab" : "crosshair";
}

function listenToSolid() {
  const canvas = $("solid");
  let from = null, moved = 0;
  const turn = (dx, dy) => {
    solid.yaw -= dx;
    solid.pitch = clamp(solid.pitch + dy, -1.5, 1.5);
    paintSolid();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    [from, moved] = [[event.clientX, event.clientY], 0];
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
    moved += Math.hypot(dx, dy);
    from = [event.clientX, event.clientY];
    if (moved > 4) turn(0.01 * dx, 0.01 * dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    const rect = canvas.getBoundingClientRect();
    if (from && moved <= 4) clickSolid(event.clientX - rect.left, event.clientY - rect.top);
    from = null;
  });
  canvas.addEventListener("pointercancel", () => { from = null; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    solid.zoom = clamp(solid.zoom * 1.2 ** (-event.deltaY / (event.deltaMode ? 3 : 100)), 0.5, 12);
    paintSolid();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, -0.15], ArrowDown: [0, 0.15] }[event.key];
    if (!way) return;
    turn(...way);
    event.preventDefault();
  });
  for (const button of all("[data-mode]")) button.onclick = () => setMode(button.dataset.mode);
  new ResizeObserver(paintSolid).observe(canvas);
}

// ---- openings and cut planes that are marked ----

function addOpening(near_mm) {
  const taken = new Set(openings.map(({ name }) => name));
  const role = openings.some((each) => each.role === "inlet") ? "outlet" : "inlet";
  let name = role, number = 1;
  if (role === "outlet") do name = `outlet_${number++}`; while (taken.has(name));
  while (taken.has(name)) name = `inlet_${++number}`;
  openings.push({ name, role, near_mm, flow_ml_s: role === "inlet" ? givenFlow(name) : null, rest: {} });
  listOpenings();
}

function givenFlow(name) { // of the case file so far
  const inlets = facts.case.solve?.inlets ?? {};
  return (inlets[name] ?? inlets["*"])?.flow_ml_s ?? null;
}

function field(kind, value, label, take) {
  const made = document.createElement(kind);
  made.value = value;
  made.ariaLabel = label;
  made.addEventListener(kind === "select" ? "change" : "input", () => { take(made); paintSolid(); refresh(); });
  return made;
}

function addRadius(cell, point) { // of a cut disc
  const radius = field("input", point.radius_mm ?? "", "radius of the cut disc", (made) => {
    point.radius_mm = made.valueAsNumber > 0 ? made.valueAsNumber : null;
    changed();
  });
  Object.assign(radius, { type: "number", min: 0.1, step: "any", placeholder: "plane", title: "radius, mm" });
  cell.append(radius);
}

function measureOpenings() {
  for (const opening of openings) opening.away = grown?.parts ? awayFromSurface(opening.near_mm) : 0;
}

function awayFromSurface(near_mm) { // mm to its nearest face
  const place = toPlaces(toVoxel(near_mm)), { centres } = grown.parts;
  let least = Infinity;
  for (let k = 0; k < centres.length; k += 3)
    least = Math.min(least, Math.hypot(centres[k] - place[0], centres[k + 1] - place[1], centres[k + 2] - place[2]));
  return least;
}

function listOpenings() {
  measureOpenings();
  $("openings").replaceChildren(...openings.map((opening, number) => {
    const row = document.createElement("tr");
    row.innerHTML = "<td></td><td></td><td></td><td></td>";
    const name = field("input", opening.name, "name of the opening", (made) => {
      opening.name = made.value;
      made.setCustomValidity(NAME.test(made.value) ? "" : "letters, digits and _ . - only");
    });
    name.className = "name";
    const role = field("select", "", "role of the opening", (made) => { opening.role = made.value; listOpenings(); });
    role.append(...ROLES.map((text) => new Option(text, text, false, text === opening.role)));
    const flow = field("input", opening.flow_ml_s ?? "", "flow in mL/s", (made) => {
      opening.flow_ml_s = made.value === "" ? null : made.valueAsNumber;
    });
    Object.assign(flow, { type: "number", min: 0, step: "any", placeholder: "mL/s" });
    flow.value = opening.flow_ml_s ?? "";
    row.children[0].append(name);
    row.children[1].append(role);
    if (opening.role === "inlet") row.children[2].append(flow, " mL/s");
    addButton(row.children[3], "show", () => goTo(toVoxel(opening.near_mm)));
    addButton(row.children[3], "\u00d7", () => { openings.splice(number, 1); listOpenings(); }, "remove");
    return row;
  }));
  paintSolid();
  refresh();
}
