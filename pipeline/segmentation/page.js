"use strict";
// Three orthogonal views of one upright volume: index x grows to the patient's left, y to the back, z to the head
// (along the nearest axes where the image is oblique). Lengths are mm, places LPS, indices [x, y, z].

const $ = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const facts = JSON.parse($("facts").textContent);
const [NX, NY, NZ] = facts.size;
const STRIDE = [1, NX, NX * NY];
const SPACING = facts.spacing_mm;
const REACH_MM = Math.max(1, 1.5 * Math.min(...SPACING)); // of the mean around a voxel
const KINDS = {
  seed: { key: "seeds_mm", label: "seed" },
  background: { key: "background_mm", label: "background" },
  cut: { key: "cut_planes", label: "cut disc" },
};
const AXES = [[0, 1, 2], [0, 2, 1], [1, 2, 0]]; // across, down, along: axial, coronal, sagittal
const COLOUR = Object.fromEntries(
  ["axial", "coronal", "sagittal", "mask", "seed", "background", "cut", "accent", "faint", "ink"].map(
    (name) => [name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()]));

const state = {
  cursor: [NX >> 1, NY >> 1, NZ >> 1], // the crosshair
  pointer: null, // voxel under the pointer
  black: 0, white: 1, // grey window
  threshold: 0, coloured: false, automatic: false,
  mask: "outline", smooth: true, marks: true,
  points: [], // picked: { kind, mm, normal, radius_mm }
};
let levels, mask, views, active;
let picking = null; // what page.pick.js adds to a page without a mask

// ---- data ----

async function unpack(id) {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter();
  writer.write(bytes);
  writer.close();
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

function join(bytes) { // all low bytes, then all high bytes
  const joined = new Uint16Array(bytes.length / 2);
  for (let i = 0; i < joined.length; i++) joined[i] = bytes[i] | (bytes[joined.length + i] << 8);
  return joined;
}

const offset = (voxel) => voxel[0] + voxel[1] * NX + voxel[2] * NX * NY;
const intensity = (level) => facts.lowest + level * facts.step;
const inMask = (at) => (mask[at >> 3] >> (7 - (at & 7))) & 1;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const limit = (voxel) => voxel.map((n, axis) => clamp(Math.round(n), 0, facts.size[axis] - 1));

function toMm(voxel) {
  return facts.direction.map((row, k) => facts.origin_mm[k] + row.reduce((sum, d, a) => sum + d * SPACING[a] * voxel[a], 0));
}

function toIndex(grid, mm) {
  return grid.matrix.map((row) => row.reduce((sum, m, k) => sum + m * (mm[k] - grid.origin_mm[k]), 0));
}

function toVoxel(mm) { // of what is shown
  const away = mm.map((x, k) => x - facts.origin_mm[k]);
  return SPACING.map((spacing, a) => away.reduce((sum, x, k) => sum + x * facts.direction[k][a], 0) / spacing);
}

// ---- numbers ----

const DECIMALS = Math.max(0, -Math.floor(Math.log10(facts.step) + 1e-9));
const grey = (value) => value.toFixed(DECIMALS).replace(/^-(0(\.0*)?)$/, "$1");
const mmText = (value) => (Math.round(value * 100) / 100 + 0).toFixed(2);
const yamlNumbers = (values, digits = 2) => `[${values.map((x) => +x.toFixed(digits) + 0).join(", ")}]`;

function meanAround([x0, y0, z0]) {
  const reach = SPACING.map((spacing) => Math.floor(REACH_MM / spacing));
  let count = 0, sum = 0, squares = 0;
  for (let z = Math.max(z0 - reach[2], 0); z <= Math.min(z0 + reach[2], NZ - 1); z++)
    for (let y = Math.max(y0 - reach[1], 0); y <= Math.min(y0 + reach[1], NY - 1); y++)
      for (let x = Math.max(x0 - reach[0], 0); x <= Math.min(x0 + reach[0], NX - 1); x++) {
        if (Math.hypot((x - x0) * SPACING[0], (y - y0) * SPACING[1], (z - z0) * SPACING[2]) > REACH_MM) continue;
        const value = intensity(levels[offset([x, y, z])]);
        count++; sum += value; squares += value * value;
      }
  const mean = sum / count;
  return [mean, Math.sqrt(Math.max(squares / count - mean * mean, 0))];
}

// ---- views ----

class View {
  constructor(name, number) {
    [this.across, this.down, this.along] = AXES[number];
    this.name = name;
    this.flip = this.down === 2; // the head is on top
    this.figure = $(name);
    this.canvas = this.figure.querySelector("canvas");
    this.context = this.canvas.getContext("2d");
    this.slider = this.figure.querySelector("input");
    this.slider.max = facts.size[this.along] - 1;
    this.image = new ImageData(facts.size[this.across], facts.size[this.down]);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.buffer = document.createElement("canvas");
    this.buffer.width = this.image.width;
    this.buffer.height = this.image.height;
    ["left", "right", "top", "bottom"].forEach((side, k) => {
      this.figure.querySelector(`.letter.${side}`).textContent = facts.planes[number][2][k];
    });
    this.measure();
    this.fit();
  }

  measure() { // in pixels of the page, which may be parts of one
    ({ width: this.width, height: this.height } = this.canvas.getBoundingClientRect());
  }

  fit() {
    this.zoom = 1;
    this.centre = [this.across, this.down].map((axis) => (facts.size[axis] - 1) / 2 * SPACING[axis]); // mm
  }

  get slice() { return state.cursor[this.along]; }

  get scale() { // pixels of the page per mm
    const fitted = Math.min(
      this.width / (facts.size[this.across] * SPACING[this.across]),
      this.height / (facts.size[this.down] * SPACING[this.down]));
    return fitted * this.zoom;
  }

  toPage(voxel) {
    const x = voxel[this.across] * SPACING[this.across] - this.centre[0];
    const y = voxel[this.down] * SPACING[this.down] - this.centre[1];
    return [
      this.width / 2 + x * this.scale,
      this.height / 2 + (this.flip ? -y : y) * this.scale,
    ];
  }

  toVolume(x, y) { // a continuous index
    const voxel = [0, 0, 0];
    const right = (x - this.width / 2) / this.scale;
    const down = (y - this.height / 2) / this.scale;
    voxel[this.across] = (right + this.centre[0]) / SPACING[this.across];
    voxel[this.down] = ((this.flip ? -down : down) + this.centre[1]) / SPACING[this.down];
    voxel[this.along] = this.slice;
    return voxel;
  }

  zoomBy(factor, x, y) { // what lies at x, y stays there
    const before = this.toVolume(x, y);
    this.zoom = clamp(this.zoom * factor, 0.5, 40);
    const after = this.toVolume(x, y);
    [this.across, this.down].forEach((axis, k) => { this.centre[k] += (before[axis] - after[axis]) * SPACING[axis]; });
  }

  moveBy(x, y) {
    this.centre[0] -= x / this.scale;
    this.centre[1] -= (this.flip ? -y : y) / this.scale;
  }

  paint(table, colours) {
    this.measure();
    this.canvas.width = Math.round(this.width * window.devicePixelRatio);
    this.canvas.height = Math.round(this.height * window.devicePixelRatio);
    this.fill(table, colours);
    const context = this.context;
    context.setTransform(this.canvas.width / this.width, 0, 0, this.canvas.height / this.height, 0, 0);
    context.imageSmoothingEnabled = state.smooth;
    const first = [-0.5, -0.5, -0.5], last = facts.size.map((n) => n - 0.5);
    const [x0, y0] = this.toPage(first), [x1, y1] = this.toPage(last);
    context.drawImage(this.buffer, x0, Math.min(y0, y1), x1 - x0, Math.abs(y1 - y0));
    picking?.draw(this);
    if (mask && state.mask === "outline") this.outline();
    if (state.marks) this.marks();
    this.legend();
  }

  marks() {
    this.cross();
    for (const point of facts.points) this.mark(toVoxel(point.mm), COLOUR[point.kind], false);
    for (const point of state.points) this.mark(toVoxel(point.mm), COLOUR[point.kind], true);
  }

  fill(table, colours) {
    const [du, dv] = [STRIDE[this.across], STRIDE[this.down]];
    const { width, height } = this.image;
    const inside = picking ? picking.grownOf(this) : mask && state.mask === "fill" ? inMask : () => false;
    for (let v = 0; v < height; v++) {
      let at = this.slice * STRIDE[this.along] + v * dv;
      let pixel = (this.flip ? height - 1 - v : v) * width;
      for (let u = 0; u < width; u++, at += du, pixel++)
        this.pixels[pixel] = (inside(at, u, v) ? colours : table)[levels[at]];
    }
    this.buffer.getContext("2d").putImageData(this.image, 0, 0);
  }

  outline() { // the edges between voxels inside and outside
    const [du, dv] = [STRIDE[this.across], STRIDE[this.down]];
    const { width, height } = this.image, start = this.slice * STRIDE[this.along];
    const inside = (u, v) => u >= 0 && v >= 0 && u < width && v < height && inMask(start + u * du + v * dv) === 1;
    const corner = (u, v) => {
      const voxel = [0, 0, 0];
      voxel[this.across] = u - 0.5;
      voxel[this.down] = v - 0.5;
      return this.toPage(voxel);
    };
    this.context.beginPath();
    const line = (u0, v0, u1, v1) => { this.context.moveTo(...corner(u0, v0)); this.context.lineTo(...corner(u1, v1)); };
    for (let v = 0; v <= height; v++)
      for (let u = 0; u <= width; u++) {
        const here = inside(u, v);
        if (here !== inside(u - 1, v)) line(u, v, u, v + 1);
        if (here !== inside(u, v - 1)) line(u, v, u + 1, v);
      }
    this.context.strokeStyle = COLOUR.mask;
    this.context.lineWidth = 1.25;
    this.context.lineCap = "square";
    this.context.stroke();
  }

  cross() { // lines in the colours of the planes that they stand for, open in the middle
    const [x, y] = this.toPage(state.cursor), gap = 9, { context } = this;
    const colour = (axis) => COLOUR[views.find((view) => view.along === axis).name];
    const line = (style, ...ends) => {
      context.strokeStyle = style;
      context.beginPath();
      ends.forEach(([a, b, c, d]) => { context.moveTo(a, b); context.lineTo(c, d); });
      context.stroke();
    };
    context.lineWidth = 1;
    context.globalAlpha = 0.75;
    line(colour(this.across), [x, 0, x, y - gap], [x, y + gap, x, this.height]);
    line(colour(this.down), [0, y, x - gap, y], [x + gap, y, this.width, y]);
    context.globalAlpha = 1;
  }

  mark(voxel, colour, picked) { // points of this slice
    if (Math.abs(voxel[this.along] - this.slice) > 0.5) return;
    const [x, y] = this.toPage(voxel), { context } = this;
    for (const [style, width] of [["black", 4], [colour, 2]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      if (picked) context.arc(x, y, 5, 0, 2 * Math.PI);
      else {
        context.moveTo(x - 5, y); context.lineTo(x + 5, y);
        context.moveTo(x, y - 5); context.lineTo(x, y + 5);
      }
      context.stroke();
    }
  }

  legend() {
    const room = 0.3 * this.width / this.scale;
    const length = [500, 200, 100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1].find((n) => n <= room) || 0.1;
    const bar = this.figure.querySelector(".bar");
    bar.firstElementChild.textContent = `${length} mm`;
    bar.lastElementChild.style.width = `${length * this.scale}px`;
    this.slider.value = this.slice;
    this.figure.querySelector(".slice").textContent = `slice ${this.slice + 1} of ${facts.size[this.along]}`;
  }
}

function colourTables() { // little-endian RGBA by level: grey with the threshold's colour, and with the mask's over it
  const count = Math.floor((facts.windows.at(-1)[2] - facts.lowest) / facts.step) + 2;
  const table = new Uint32Array(count), masked = new Uint32Array(count);
  const mix = (share, value, colour) => (255 << 24 | colour.reduceRight(
    (word, part) => word << 8 | Math.round(value * (1 - share) + part * share), 0)) >>> 0;
  for (let level = 0; level < count; level++) {
    const value = intensity(level);
    const shade = clamp(Math.round((value - state.black) / (state.white - state.black) * 255), 0, 255);
    const over = !picking && state.coloured && value >= state.threshold;
    table[level] = over ? mix(0.5, shade, [38, 196, 178]) : mix(0, shade, [0, 0, 0]);
    masked[level] = mix(picking ? 0.5 : 0.35, shade, [255, 157, 46]);
  }
  return [table, masked];
}

// ---- what is said ----

function triple(place, numbers) { // in columns
  place.replaceChildren(...numbers.flatMap((number) => {
    const column = document.createElement("span");
    column.textContent = number;
    return [column, " "];
  }));
}

function readOut() {
  const voxel = state.pointer || state.cursor;
  const at = offset(voxel), mm = toMm(voxel);
  $("where").textContent = state.pointer ? "pointer" : "crosshair";
  triple($("lps"), mm.map(mmText));
  triple($("ras"), [-mm[0], -mm[1], mm[2]].map(mmText));
  facts.grids.forEach((grid, k) => triple($(`voxel${k}`), toIndex(grid, mm).map((n) => Math.round(n) + 0)));
  $("intensity").textContent = grey(intensity(levels[at]));
  const [mean, deviation] = meanAround(voxel);
  $("mean").textContent = `${grey(mean)} ± ${grey(deviation)}`;
  if (mask) $("inside").textContent = inMask(at) ? "inside" : "outside";
}

function yaml(points) {
  const value = ({ kind, mm, normal, radius_mm }) => kind === "cut"
    ? `{point_mm: ${yamlNumbers(mm)}, normal: ${yamlNumbers(normal, 4)}, radius_mm: ${radius_mm}}`
    : yamlNumbers(mm);
  return Object.entries(KINDS).flatMap(([kind, { key }]) => {
    const values = points.filter((point) => point.kind === kind).map(value);
    return values.length ? [`${key}: [${values.join(", ")}]`] : [];
  }).join("\n");
}

function section() { // for the case file
  const lines = yaml(state.points).split("\n").filter(Boolean);
  if (state.coloured) lines.push(`lower: ${+state.threshold.toFixed(DECIMALS)}`);
  return lines.length ? ["segment:", ...lines.map((line) => `  ${line}`)].join("\n") : "";
}

function listPoints() {
  const rows = state.points.map((point, number) => {
    const row = document.createElement("tr");
    row.innerHTML = "<th></th><td></td><td></td>";
    row.firstChild.textContent = KINDS[point.kind].label;
    row.firstChild.style.setProperty("--kind", COLOUR[point.kind]);
    triple(row.children[1], point.mm.map(mmText));
    if (point.kind === "cut") picking?.addRadius(row.children[1], point);
    addButton(row.lastChild, "show", () => goTo(toVoxel(point.mm)));
    addButton(row.lastChild, "copy", () => copy(yaml([point])));
    addButton(row.lastChild, "\u00d7", () => { state.points.splice(number, 1); listPoints(); }, "remove");
    return row;
  });
  const apart = (n) => Boolean($("cuts")) && state.points[n].kind === "cut"; // in a table of their own
  $("points").replaceChildren(...rows.filter((_, n) => !apart(n)));
  $("cuts")?.replaceChildren(...rows.filter((_, n) => apart(n)));
  picking?.changed();
  refresh();
}

function addButton(cell, text, action, label = text) {
  const made = document.createElement("button");
  made.textContent = text;
  made.ariaLabel = label;
  made.onclick = action;
  cell.append(made, " ");
}

function addPoint(kind) {
  const point = { kind, mm: toMm(state.cursor) };
  if (kind === "cut") {
    point.normal = facts.direction.map((row) => row[active.along]);
    point.radius_mm = Number($("radius").value) || 10;
  }
  state.points.push(point);
  picking?.added(point);
  listPoints();
}

async function copy(text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not allowed in files by some browsers
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  $("copied").textContent = done ? "copied" : "the browser does not allow it: select the text";
  setTimeout(() => { $("copied").textContent = ""; }, 2500);
}

// ---- histogram and sliders ----

let counts;

function paintHistogram() {
  const canvas = $("histogram"), ratio = window.devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const [low, high] = range();
  const bins = new Float64Array(Math.max(Math.floor(width / 2), 1));
  counts.forEach((count, level) => {
    const bin = Math.floor((intensity(level) - low) / (high - low) * bins.length);
    if (bin >= 0 && bin < bins.length) bins[bin] += count;
  });
  const top = Math.log1p(Math.max(...bins));
  const at = (value) => (value - low) / (high - low) * width;
  context.fillStyle = "#262b31";
  context.fillRect(at(state.black), 0, at(state.white) - at(state.black), height);
  bins.forEach((count, bin) => {
    const inColour = state.coloured && low + (bin + 0.5) / bins.length * (high - low) >= state.threshold;
    context.fillStyle = inColour ? "#26c4b2" : "#8d969f";
    const tall = Math.log1p(count) / top * (height - 2);
    context.fillRect(bin * width / bins.length, height - tall, width / bins.length, tall);
  });
}

const range = () => { // of the sliders: all but the rare ends, and whatever is set
  const [, low, high] = facts.windows.find(([name]) => name === "image");
  const margin = 0.25 * (high - low);
  const [, lowest, highest] = facts.windows.at(-1);
  return [Math.max(low - margin, lowest), Math.min(high + margin, highest)];
};

function showSettings() {
  const [low, high] = range();
  const values = {
    level: (state.black + state.white) / 2,
    width: state.white - state.black,
    threshold: state.threshold,
  };
  for (const [id, value] of Object.entries(values)) {
    $(id).min = id === "width" ? (high - low) / 200 : low;
    $(id).max = id === "width" ? 1.5 * (high - low) : high;
    $(id).step = "any";
    $(id).value = value;
  }
  $("level-value").textContent = grey(values.level);
  $("width-value").textContent = grey(values.width);
  $("threshold-value").value = grey(values.threshold);
  if ($("colour")) $("colour").checked = state.coloured;
  for (const button of all("[data-window]")) {
    const [, black, white] = facts.windows[button.dataset.window];
    button.classList.toggle("on", black === state.black && white === state.white);
  }
  for (const button of all("[data-mask]")) button.classList.toggle("on", button.dataset.mask === state.mask);
  $("yaml").textContent = picking ? picking.caseFile() : section();
}

function setWindow(level, width) {
  state.black = level - width / 2;
  state.white = level + width / 2;
  refresh();
}

function setThreshold(value) {
  if (!Number.isFinite(value)) return;
  state.threshold = value;
  state.coloured = true;
  state.automatic = false;
  picking?.changed();
  refresh();
}

// ---- painting, at most once a frame ----

let waiting = false;

function refresh() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const tables = colourTables();
    for (const view of views) view.paint(...tables);
    paintHistogram();
    readOut();
    showSettings();
  });
}

function goTo(voxel) {
  state.cursor = limit(voxel);
  refresh();
}

function scroll(view, slices) {
  const voxel = [...state.cursor];
  voxel[view.along] += slices;
  state.pointer = null;
  goTo(voxel);
}

// ---- mouse, touch, keys ----

function listen(view) {
  const { canvas, figure } = view, held = new Map();
  let action = null, moved = 0, rest = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const inside = (voxel) => voxel.every((n, axis) => n > -0.5 && n < facts.size[axis] - 0.5);

  canvas.addEventListener("pointerdown", (event) => {
    active = view;
    figure.focus({ preventScroll: true });
    canvas.setPointerCapture?.(event.pointerId);
    held.set(event.pointerId, place(event));
    moved = rest = 0;
    if (event.pointerType === "touch") action = held.size > 1 ? "pinch" : "scroll";
    else action = event.button === 2 ? "window" : event.button === 1 || event.shiftKey ? "move" : "cross";
    if (["cross", "scroll"].includes(action) && picking?.grab(view, ...place(event))) action = "box";
    if (action === "cross") goTo(view.toVolume(...place(event)));
    event.preventDefault();
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const voxel = view.toVolume(x, y);
    state.pointer = event.pointerType !== "touch" && inside(voxel) ? limit(voxel) : null;
    const before = held.get(event.pointerId);
    if (!before) {
      canvas.style.cursor = picking?.cursor(view, x, y) ?? "";
      return refresh();
    }
    const [dx, dy] = [x - before[0], y - before[1]];
    moved += Math.hypot(dx, dy);
    if (action === "cross") goTo(voxel);
    if (action === "box") picking.drag(view, voxel);
    if (action === "move") view.moveBy(dx, dy);
    if (action === "window") {
      const [low, high] = range(), share = (high - low) / 400;
      const width = Math.max(state.white - state.black + dx * share, share);
      setWindow((state.black + state.white) / 2 - dy * share, width);
    }
    if (action === "scroll" && moved > 8) {
      rest -= dy;
      const slices = Math.trunc(rest / 6);
      rest -= 6 * slices;
      scroll(view, slices);
    }
    if (action === "pinch" && held.size === 2) {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      const distance = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
      view.moveBy(dx / 2, dy / 2);
      view.zoomBy(distance([x, y]) / distance(before), (x + other[0]) / 2, (y + other[1]) / 2);
    }
    held.set(event.pointerId, [x, y]);
    refresh();
  });

  const release = (event) => {
    const [x, y] = place(event);
    if (action === "scroll" && moved <= 8 && event.type === "pointerup") goTo(view.toVolume(x, y));
    held.delete(event.pointerId);
    if (!held.size) action = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { state.pointer = null; refresh(); });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  let turned = 0; // of the wheel, in parts of a slice
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    active = view;
    const notches = event.deltaY / (event.deltaMode ? 3 : 100);
    if (event.ctrlKey || event.metaKey) {
      view.zoomBy(1.25 ** -notches, ...place(event));
      return refresh();
    }
    turned -= notches;
    const slices = Math.trunc(turned);
    turned -= slices;
    if (slices) scroll(view, slices);
  }, { passive: false });

  figure.addEventListener("focus", () => { active = view; });
  figure.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const slices = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[event.key];
    const kind = { s: "seed", b: "background", c: "cut" }[event.key.toLowerCase()];
    const zoom = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
    active = view;
    if (slices) scroll(view, slices);
    else if (kind) addPoint(kind);
    else if (event.key.toLowerCase() === "x") { state.marks = !state.marks; refresh(); }
    else if (zoom) { view.zoomBy(zoom, ...view.toPage(state.cursor)); refresh(); }
    else return;
    event.preventDefault();
  });
  view.slider.addEventListener("input", () => scroll(view, view.slider.valueAsNumber - view.slice));
}

function listenToControls() {
  for (const button of all("[data-window]")) button.onclick = () => {
    [, state.black, state.white] = facts.windows[button.dataset.window];
    refresh();
  };
  for (const button of all("[data-mask]")) button.onclick = () => { state.mask = button.dataset.mask; refresh(); };
  for (const button of all("[data-zoom]")) button.onclick = () => {
    const factor = Number(button.dataset.zoom);
    for (const view of views) factor ? view.zoomBy(factor, ...view.toPage(state.cursor)) : view.fit();
    refresh();
  };
  for (const button of all("[data-add]")) button.onclick = () => addPoint(button.dataset.add);
  for (const button of all("[data-point]"))
    button.onclick = () => goTo(toVoxel(facts.points[button.dataset.point].mm));
  $("smooth").onchange = () => { state.smooth = $("smooth").checked; refresh(); };
  if ($("colour")) $("colour").onchange = () => { state.coloured = $("colour").checked; refresh(); };
  $("level").oninput = () => setWindow($("level").valueAsNumber, state.white - state.black);
  $("width").oninput = () => setWindow((state.black + state.white) / 2, $("width").valueAsNumber);
  $("threshold").oninput = () => setThreshold($("threshold").valueAsNumber);
  $("threshold-value").onchange = () => setThreshold($("threshold-value").valueAsNumber);
  $("histogram").onclick = (event) => {
    const [low, high] = range();
    setThreshold(low + event.offsetX / $("histogram").clientWidth * (high - low));
  };
  $("copy").onclick = () => copy($("yaml").textContent);
  new ResizeObserver(refresh).observe($("views"));
}

async function start() {
  const folder = decodeURIComponent(location.pathname).split("/").at(-2); // the file itself holds no name
  $("case").textContent = folder;
  document.title = `${folder} · ${document.title}`;
  if (typeof DecompressionStream === "undefined") throw new Error("it is too old to unpack the image");
  levels = join(await unpack("voxels"));
  mask = $("mask") && (await unpack("mask"));
  counts = new Float64Array(65536);
  for (const level of levels) counts[level]++;
  [, state.black, state.white] = facts.windows[0];
  state.threshold = facts.lower ?? facts.case?.segment?.lower ?? (state.black + state.white) / 2;
  $("reach").textContent = +REACH_MM.toFixed(2);
  views = facts.planes.map(([name], number) => new View(name, number));
  active = views[0];
  if (facts.points.length) state.cursor = limit(toVoxel(facts.points[0].mm));
  views.forEach(listen);
  listenToControls();
  picking?.start();
  refresh();
  document.body.dataset.ready = "yes";
}

function fail(error) {
  $("failure").textContent = `The page cannot be shown by this browser: ${error.message}. Use a present version of`
    + " Firefox, Chrome, Edge or Safari.";
  $("failure").hidden = false;
}
