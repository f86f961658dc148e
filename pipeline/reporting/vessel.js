"use strict";
/* What the view to turn reckons: cuts through its triangles, ranges and ticks of colours, and what is written over it. */
const vessel = (() => {
  const KINDS = { f4: Float32Array, f8: Float64Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array,
    i4: Int32Array, u4: Uint32Array };
  const unpack = (base64, kind = "f4") => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new KINDS[kind](bytes.buffer);
  };
  /* Numbers of a trace, which plotly's Python writes as base64 or as they are. */
  const numbers = (given) => (given.bdata === undefined ? given : unpack(given.bdata, given.dtype));

  /* The part of a mesh below a plane. A triangle that the plane crosses is cut: its new corners are mixed of two old
     ones, and `mix` says how, so that values at the corners can be mixed alike. */
  const clipped = (mesh, { axis, height }) => {
    const points = { x: Array.from(mesh.x), y: Array.from(mesh.y), z: Array.from(mesh.z) };
    const above = points.x.map((x, p) => axis[0] * x + axis[1] * points.y[p] + axis[2] * points.z[p] - height);
    const mix = [], made = new Map(), found = { i: [], j: [], k: [] };
    const between = (a, b) => {
      const key = a < b ? `${a} ${b}` : `${b} ${a}`;
      if (!made.has(key)) {
        const part = above[a] / (above[a] - above[b]);
        for (const each of Object.values(points)) each.push(each[a] + part * (each[b] - each[a]));
        mix.push([a, b, part]);
        made.set(key, points.x.length - 1);
      }
      return made.get(key);
    };
    const put = (a, b, c) => { found.i.push(a); found.j.push(b); found.k.push(c); };
    for (let t = 0; t < mesh.i.length; t += 1) {
      const corners = [mesh.i[t], mesh.j[t], mesh.k[t]], ring = [];
      corners.forEach((a, n) => {
        const b = corners[(n + 1) % 3];
        if (above[a] <= 0) ring.push(a);
        if ((above[a] < 0 && above[b] > 0) || (above[a] > 0 && above[b] < 0)) ring.push(between(a, b));
      });
      if (ring.length > 2) put(ring[0], ring[1], ring[2]);
      if (ring.length > 3) put(ring[0], ring[2], ring[3]);
    }
    return { ...points, ...found, mix };
  };
  /* Values at the corners of a mesh that was cut. */
  const spread = (values, mix) => {
    const found = new Float32Array(values.length + mix.length);
    found.set(values);
    mix.forEach(([a, b, part], k) => { found[values.length + k] = values[a] + part * (values[b] - values[a]); });
    return found;
  };

  /* Range of colours between percentiles of the area, by the rules of quantities.py. */
  const rangeOf = (values, areas, quantity, percentile, log, wide) => {
    const order = Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
    const total = areas.reduce((sum, area) => sum + area, 0);
    const ends = [1 - percentile / 100, percentile / 100].map((share) => {
      let sum = 0;
      for (const k of order) {
        sum += areas[k];
        if (sum >= share * total - 1e-9 * total) return values[k];
      }
      return values[order[order.length - 1]];
    });
    const [low, high] = ends;
    if (log && high > 0) return { limits: [low > 0 ? Math.max(low, high / 1000) : high / wide, high], log: true };
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    if (quantity.from === "both") return { limits: [-most, most], log: false };
    if (quantity.from === "zero") return { limits: [0, high > 0 ? high : 1], log: false };
    return { limits: high > low ? [low, high] : [low - 0.5, low + 0.5], log: false };
  };

  /* Round values within limits: place from 0 to 1, and text. */
  const ticksOf = ([low, high], log) => {
    const found = [], text = (value) => String(Number(value.toPrecision(3)));
    if (log) {
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        for (const first of high / low > 200 ? [1] : [1, 3]) {
          const value = first * 10 ** power;
          if (value >= low && value <= high) found.push([Math.log(value / low) / Math.log(high / low), text(value)]);
        }
      }
      return found;
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) {
      found.push([(n * step - low) / (high - low), text(n * step)]);
    }
    return found;
  };

  /* Labels beside their places, within the frame; one that would overprint another is not shown, nor the letter of a
     direction along which one looks. */
  const placeLabels = (layer, labels, scene) => {
    const { projection, view, model } = scene.glplot.cameraParams, scale = scene.dataScale;
    const through = (matrix, p) => [0, 1, 2, 3].map((r) => p.reduce((sum, part, c) => sum + matrix[4 * c + r] * part, 0));
    const width = layer.clientWidth, height = layer.clientHeight, taken = [];
    while (layer.children.length < labels.length) layer.append(document.createElement("span"));
    labels.forEach((label, k) => {
      const element = layer.children[k];
      if (element.textContent !== label.text) {
        element.textContent = label.text;
        element.style.color = label.colour;
        element.classList.toggle("strong", Boolean(label.strong));
        element.size = [element.offsetWidth, element.offsetHeight];
      }
      const at = [model, view, projection].reduce((p, matrix) => through(matrix, p),
        [...label.place.map((part, axis) => part * scale[axis]), 1]);
      const [w, h] = element.size;
      const inside = (value, most) => Math.min(Math.max(value, 2), most - 2);
      const x = inside((at[0] / at[3] + 1) / 2 * width - w / 2, width - w);
      const ys = [0, -1, 1].map((way) => inside((1 - at[1] / at[3]) / 2 * height - h / 2 + way * h, height - h));
      const free = (y) => taken.every(([left, top, right, low]) => x + w < left || x > right || y + h < top || y > low);
      const y = (label.strong ? ys : ys.slice(0, 1)).find(free);
      const aside = Math.hypot(at[0] / at[3] * width, at[1] / at[3] * height) / 2; /* from the middle */
      element.hidden = y === undefined || (label.axis && aside < 0.25 * Math.min(width, height));
      if (element.hidden) return;
      element.style.transform = `translate(${x}px, ${y}px)`;
      element.place = [x, y];
      taken.push([x, y, x + w, y + h]);
    });
  };

  /* The view with its labels and its legend as a PNG. */
  const compose = (drawn, layer, bars) => {
    const made = document.createElement("canvas"), pen = made.getContext("2d");
    const width = layer.clientWidth, height = layer.clientHeight, factor = drawn.width / width, row = 64;
    made.width = drawn.width;
    made.height = Math.round(factor * (height + row * bars.length + 8));
    pen.fillStyle = "white";
    pen.fillRect(0, 0, made.width, made.height);
    pen.drawImage(drawn, 0, 0, made.width, factor * height);
    pen.scale(factor, factor);
    pen.textBaseline = "top";
    const family = getComputedStyle(layer).fontFamily;
    const write = (text, x, y, colour, weight = "", align = "left") => {
      pen.font = `${weight} 13px ${family}`;
      pen.textAlign = align;
      pen.fillStyle = colour;
      pen.fillText(text, x, y);
    };
    for (const label of layer.children) {
      if (label.hidden) continue;
      pen.fillStyle = "rgb(255 255 255 / 0.75)";
      pen.fillRect(...label.place, ...label.size);
      write(label.textContent, label.place[0] + 3, label.place[1] + 2, label.style.color, "bold");
    }
    bars.forEach((bar, n) => {
      const top = height + 8 + row * n, left = 0.1 * width, wide = 0.8 * width;
      write(bar.label, left, top, "#1b2733", "bold");
      let x = left;
      for (const [, name, colour] of bar.parts ?? []) {
        pen.fillStyle = colour;
        pen.fillRect(x, top + 20, 12, 12);
        write(name, x + 18, top + 20, "#1b2733");
        x += 36 + pen.measureText(name).width;
      }
      if (bar.parts) return;
      const band = pen.createLinearGradient(left, 0, left + wide, 0);
      bar.colours.forEach(([at, colour]) => band.addColorStop(at, colour));
      pen.fillStyle = band;
      pen.fillRect(left, top + 20, wide, 12);
      for (const [at, text] of ticksOf(bar.limits, bar.log)) write(text, left + at * wide, top + 36, "#5d6975", "", "center");
    });
    return made.toDataURL("image/png");
  };

  return { unpack, numbers, clipped, spread, rangeOf, ticksOf, placeLabels, compose };
})();
