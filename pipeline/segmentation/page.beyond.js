"use strict";
// Whether what grows has left the vessel inside the image, in the worker: the rule of wide_bodies.py and of chambers() in
// beyond.py, by the numbers of these modules (image.rules.chambers), on cubes as fine as the image or as fits.
// Places where two vessels touch are looked for by the stage alone, which doubts them and refuses none.

const MOST_CUBES = 1.2e6; // of the box around what grows
const STEPS26 = [];
for (let z = -1; z <= 1; z++)
  for (let y = -1; y <= 1; y++)
    for (let x = -1; x <= 1; x++) if (x || y || z) STEPS26.push([x, y, z, Math.hypot(x, y, z)]);

// A grid of cubes with a rim: `n` cubes a side, `steps` to the six neighbours, z first, as wide_bodies.py takes them.
function gridOf(n) {
  const wide = n.map((each) => each + 2), [a, b] = [wide[0], wide[0] * wide[1]];
  return {
    n, a, b, count: b * wide[2], steps: [b, -b, a, -a, 1, -1],
    all: STEPS26.map(([x, y, z]) => x + a * y + b * z), lengths: STEPS26.map((step) => step[3]),
    at: ([x, y, z]) => x + 1 + a * (y + 1) + b * (z + 1),
    place: (at) => [at % a - 1, Math.floor(at / a) % wide[1] - 1, Math.floor(at / b) - 1],
  };
}

function rows(grid, axis, action) { // the first cube of each row along an axis
  const { n, a, b } = grid, strides = [1, a, b], [u, v] = [0, 1, 2].filter((other) => other !== axis);
  for (let j = 0; j < n[v]; j++)
    for (let i = 0; i < n[u]; i++) action(1 + a + b + i * strides[u] + j * strides[v], strides[axis], n[axis]);
}

// Squared distance, in cubes, to the nearest cube of the grid at which `is` holds: Felzenszwalb and Huttenlocher 2012.
function squared(grid, is) {
  const far = new Float32Array(grid.count), FAR = 1e9;
  rows(grid, 0, (start, stride, n) => {
    for (let k = 0, away = FAR; k < n; k++) { away = is[start + k] ? 0 : away + 1; far[start + k] = away; }
    for (let k = n - 1, away = FAR; k >= 0; k--) {
      away = is[start + k] ? 0 : away + 1;
      const least = Math.min(away, far[start + k]);
      far[start + k] = least < FAR ? least * least : FAR;
    }
  });
  const longest = Math.max(...grid.n), low = new Float64Array(longest), places = new Int32Array(longest);
  const ends = new Float64Array(longest + 1);
  for (const axis of [1, 2])
    rows(grid, axis, (start, stride, n) => {
      let last = -1;
      for (let k = 0; k < n; k++) {
        const own = far[start + k * stride];
        if (own >= FAR) continue;
        let from = -Infinity;
        while (last >= 0) {
          const p = places[last];
          from = (own + k * k - low[last] - p * p) / (2 * (k - p));
          if (from > ends[last]) break;
          last--;
          from = -Infinity;
        }
        places[++last] = k;
        low[last] = own;
        ends[last] = from;
      }
      if (last < 0) return;
      for (let k = 0, part = 0; k < n; k++) {
        while (part < last && ends[part + 1] <= k) part++;
        far[start + k * stride] = low[part] + (k - places[part]) ** 2;
      }
    });
  return far;
}

function labels(grid, is, steps) { // connected parts, numbered from 1, and their cubes
  const label = new Int32Array(grid.count), parts = [[]];
  for (let first = 0; first < grid.count; first++) {
    if (!is[first] || label[first]) continue;
    const part = [first], number = parts.push(part) - 1;
    label[first] = number;
    for (let next = 0; next < part.length; next++)
      for (const step of steps) {
        const near = part[next] + step;
        if (is[near] && !label[near]) { label[near] = number; part.push(near); }
      }
  }
  return { label, parts };
}

// ---- cubes ----

function cubes(voxels, seen, bounds) { // what grows, without cavities, on cubes, and the seeds in it
  const { spacing } = image, { inner, strides, box, seeds } = field;
  const low = bounds.low.map((n) => Math.max(n - 1, 0)), high = bounds.high.map((n, axis) => Math.min(n + 1, inner[axis]));
  const mm = high.map((n, axis) => (n - low[axis]) * spacing[axis]);
  const pitch = Math.max(Math.min(...spacing), Math.cbrt(mm[0] * mm[1] * mm[2] / MOST_CUBES));
  const grid = gridOf(mm.map((each) => Math.max(Math.round(each / pitch), 1)));
  const nearest = grid.n.map((n, axis) => Int32Array.from({ length: n }, (_, k) =>
    Math.min(low[axis] + Math.floor((k + 0.5) * (high[axis] - low[axis]) / n), high[axis] - 1)));
  const mask = new Uint8Array(grid.count), edge = new Uint8Array(grid.count);
  for (let z = 0; z < grid.n[2]; z++)
    for (let y = 0; y < grid.n[1]; y++) {
      const row = 1 + strides[1] * (nearest[1][y] + 1) + strides[2] * (nearest[2][z] + 1);
      let at = grid.at([0, y, z]);
      for (let x = 0; x < grid.n[0]; x++, at++) mask[at] = seen[row + nearest[0][x]];
    }
  fill(grid, mask);
  for (let axis = 0; axis < 3; axis++)
    rows(grid, axis, (start, stride, n) => {
      for (const at of [start, start + (n - 1) * stride]) edge[at] = mask[at];
    });
  const within = seeds.filter((at) => at >= 0 && seen[at]).map((at) => grid.at(place(at).map((n, axis) =>
    Math.min(Math.floor((n - low[axis] + 0.5) * grid.n[axis] / (high[axis] - low[axis])), grid.n[axis] - 1))));
  const voxel = (at) => grid.place(at).map((n, axis) => box.low[axis] + nearest[axis][n]);
  const walled = grid.n.reduce((p, q) => p * q) > mask.reduce((sum, each) => sum + each, 0); // else all is lumen
  return { grid, mask, edge, pitch, voxel, walled, seeds: within.filter((at) => mask[at]) };
}

function fill(grid, mask) {
  const outside = new Uint8Array(grid.count), queue = [];
  const visit = (at) => { if (!mask[at] && !outside[at]) { outside[at] = 1; queue.push(at); } };
  const inside = new Uint8Array(grid.count);
  rows(grid, 0, (start, stride, n) => inside.fill(1, start, start + n));
  for (let axis = 0; axis < 3; axis++)
    rows(grid, axis, (start, stride, n) => { visit(start); visit(start + (n - 1) * stride); });
  for (let next = 0; next < queue.length; next++)
    for (const step of grid.steps) if (inside[queue[next] + step]) visit(queue[next] + step);
  for (let at = 0; at < grid.count; at++) if (inside[at] && !outside[at]) mask[at] = 1;
}

// ---- wide bodies and the throats between them ----

function bodiesOf({ grid, mask, seeds }, throat) {
  const around = new Uint8Array(grid.count), depth = new Float64Array(grid.count);
  rows(grid, 0, (start, stride, n) => { for (let k = 0; k < n; k++) around[start + k] = 1 - mask[start + k]; });
  const far = squared(grid, around);
  let most = 0, total = 0;
  for (let at = 0; at < grid.count; at++)
    if (mask[at]) { depth[at] = Math.sqrt(far[at]) - 0.5; most = Math.max(most, far[at]); total++; }
  const starts = new Int32Array(most + 2), places = new Int32Array(total), number = new Int32Array(grid.count).fill(-1);
  for (let at = 0; at < grid.count; at++) if (mask[at]) starts[most - far[at] + 1]++;
  for (let k = 1; k < starts.length; k++) starts[k] += starts[k - 1];
  for (let at = 0; at < grid.count; at++) if (mask[at]) places[starts[most - far[at]]++] = at;
  places.forEach((at, rank) => { number[at] = rank; });
  const parent = Int32Array.from(places.keys()), top = Int32Array.from(places.keys()), first = new Int32Array(total);
  const into = new Int32Array(total).fill(-1), joins = [];
  const root = (k) => { while (parent[k] !== k) { parent[k] = parent[parent[k]]; k = parent[k]; } return k; };
  for (let k = 0; k < total; k++) {
    let best = -1;
    for (const step of grid.steps) {
      const other = number[places[k] + step];
      if (other < 0 || other >= k) continue;
      const own = root(other);
      if (best < 0) { best = own; continue; }
      if (own === best) continue;
      const [high, low] = top[best] < top[own] ? [best, own] : [own, best];
      if (depth[places[k]] >= throat * depth[places[top[low]]]) into[top[low]] = top[high];
      else joins.push([top[low], top[high], k]);
      parent[low] = high;
      best = high;
    }
    if (best >= 0) { parent[k] = best; first[k] = top[best]; } else first[k] = k;
  }
  const last = (peak) => { while (into[peak] >= 0) peak = into[peak]; return peak; };
  const kept = new Map(), region = new Int32Array(grid.count).fill(-1);
  for (let k = 0; k < total; k++) first[k] = last(first[k]);
  [...new Set(first)].sort((p, q) => p - q).forEach((peak, rank) => kept.set(peak, rank));
  for (let k = 0; k < total; k++) region[places[k]] = kept.get(first[k]);
  const edges = joins.map(([p, q, k]) => ({
    ends: [kept.get(last(p)), kept.get(last(q))], radius: depth[places[k]], at: places[k],
  }));
  const peaks = [...kept.keys()].map((peak) => places[peak]);
  return { depth, region, peaks, total, throats: fromTheSeed(edges, region[seeds[0]]) };
}

function fromTheSeed(edges, root) { // the edges of a tree, turned away from its root, the nearest ones first
  const around = new Map(), found = [], seen = new Set([root]), queue = [root];
  for (const { ends, radius, at } of edges)
    for (const [p, q] of [ends, [ends[1], ends[0]]]) {
      if (!around.has(p)) around.set(p, []);
      around.get(p).push({ second: q, radius, at });
    }
  for (let next = 0; next < queue.length; next++)
    for (const each of around.get(queue[next]) ?? []) {
      if (seen.has(each.second)) continue;
      seen.add(each.second);
      queue.push(each.second);
      found.push({ first: queue[next], ...each });
    }
  return found;
}

// ---- chambers ----

function departuresOf(voxels, seen, bounds) { // { what, clear, voxel, radius_mm }, the clear ones first
  const rules = image.rules.chambers, made = cubes(voxels, seen, bounds), { grid, pitch } = made;
  if (!made.seeds.length || !made.walled) return [];
  const bodies = bodiesOf(made, rules.throat), { depth } = bodies;
  const middles = made.seeds.map((seed) => deepest(grid, depth, deepest(grid, depth, seed)));
  const radius = Math.max(...middles.map((at) => depth[at]));
  if (radius < rules.least_voxels) return [];
  const vessel = { ...made, bodies, middles, radius, rules }, cubesOf = bodies.peaks.map(() => []);
  const wide = bodies.peaks.map((at, n) => n).filter((n) => depth[bodies.peaks[n]] >= rules.as_wide * radius);
  const looked = new Set(wide.slice(0, rules.most)); // peaks are sorted by depth
  for (let at = 0; at < grid.count; at++) if (looked.has(bodies.region[at])) cubesOf[bodies.region[at]].push(at);
  const chambers = [...looked].map((n) => bodyOf(vessel, n, cubesOf[n])).filter((body) =>
    body.solid.size <= rules.round * 4 / 3 * Math.PI * body.radius ** 3 && !middles.some((at) => body.solid.has(at)));
  const found = groupsOf(vessel, chambers).map((group) => judged(vessel, group)).filter(Boolean);
  return found.sort((p, q) => q.clear - p.clear).map(({ what, clear, at }) =>
    ({ what, clear, voxel: made.voxel(at), radius_mm: depth[at] * pitch, pitch }));
}

function deepest(grid, depth, at) {
  const reach = Math.max(depth[at], 0) + 2, whole = Math.floor(reach), [x0, y0, z0] = grid.place(at);
  const range = (c, n) => [Math.max(c - whole, 0), Math.min(c + whole, n - 1)];
  const [xs, ys, zs] = [range(x0, grid.n[0]), range(y0, grid.n[1]), range(z0, grid.n[2])];
  let best = at, most = -1;
  for (let z = zs[0]; z <= zs[1]; z++)
    for (let y = ys[0]; y <= ys[1]; y++)
      for (let x = xs[0]; x <= xs[1]; x++) {
        const near = grid.at([x, y, z]);
        if ((x - x0) ** 2 + (y - y0) ** 2 + (z - z0) ** 2 <= reach ** 2 && depth[near] > most)
          [best, most] = [near, depth[near]];
      }
  return best;
}

function part(grid, list, margin) { // a grid of its own around some cubes
  const low = [...grid.n], high = [0, 0, 0];
  for (const at of list)
    grid.place(at).forEach((n, axis) => {
      low[axis] = Math.min(low[axis], n);
      high[axis] = Math.max(high[axis], n);
    });
  low.forEach((n, axis) => { low[axis] = Math.max(n - margin, 0); });
  const own = gridOf(high.map((n, axis) => Math.min(n + margin, grid.n[axis] - 1) - low[axis] + 1));
  const inside = (place) => place.every((n, axis) => n >= low[axis] && n < low[axis] + own.n[axis]);
  return {
    own, low,
    of: (at) => { const place = grid.place(at); return inside(place) ? own.at(place.map((n, axis) => n - low[axis])) : -1; },
    each: (action) => rows(own, 0, (start, stride, n) => {
      const whole = grid.at(own.place(start).map((k, axis) => k + low[axis]));
      for (let k = 0; k < n; k++) action(start + k, whole + k);
    }),
  };
}

function bodyOf({ grid, mask, bodies }, number, list) { // what a ball reaches from the peak
  const radius = bodies.depth[bodies.peaks[number]], reach = image.rules.chambers.throat * radius;
  const core = list.filter((at) => bodies.depth[at] >= reach), near = part(grid, core, Math.floor(reach) + 1);
  const is = new Uint8Array(near.own.count), solid = new Set();
  for (const at of core) is[near.of(at)] = 1;
  const away = squared(near.own, is);
  near.each((own, at) => { if (mask[at] && Math.sqrt(away[own]) <= reach) solid.add(at); });
  return { number, radius, solid };
}

function groupsOf({ grid, rules }, found) { // bodies that lie side by side, together
  const label = [...found.keys()];
  found.forEach((body, n) => {
    if (!n) return;
    const most = rules.neighbours * body.radius, near = part(grid, body.solid, Math.ceil(most) + 1);
    const is = new Uint8Array(near.own.count);
    for (const at of body.solid) is[near.of(at)] = 1;
    const away = squared(near.own, is);
    found.slice(0, n).forEach((other, k) => {
      let gap = Infinity;
      for (const at of other.solid) {
        const own = near.of(at);
        if (own >= 0) gap = Math.min(gap, away[own]);
      }
      if (Math.sqrt(gap) > rules.neighbours * Math.min(body.radius, other.radius)) return;
      const old = label[n];
      label.forEach((each, j) => { if (each === old) label[j] = label[k]; });
    });
  });
  return [...new Set(label)].sort((p, q) => p - q).map((n) => found.filter((_, k) => label[k] === n));
}

function judged(vessel, group) {
  const { grid, mask, bodies, middles, radius, pitch, rules } = vessel, { depth } = bodies;
  const solid = new Uint8Array(grid.count), rest = mask.slice();
  for (const body of group) for (const at of body.solid) { solid[at] = 1; rest[at] = 0; }
  const radii = group.map((body) => body.radius).sort((p, q) => p - q), widest = radii.at(-1);
  const volume = solid.reduce((sum, each) => sum + each, 0) * pitch ** 3 / 1000;
  const count = group.length === 1 ? "a closed body" : `${group.length} bodies side by side`;
  const size = `${count} of up to ${(widest * pitch).toFixed(0)} mm in radius, ${+volume.toPrecision(3)} mL`;
  const throat = narrowestTo(bodies, group), behind = group.length > 1 && radii.at(-2) * pitch >= rules.chamber_mm;
  const { label, parts } = labels(grid, rest, grid.steps), own = label[middles[0]];
  const leads = () => leadsOut(vessel, solid, label, parts, own);
  if (behind && throat && throat.radius <= rules.narrow * radius) {
    const what = `behind a throat of radius ${(throat.radius * pitch).toFixed(1)} mm ${size}`;
    return { what, clear: !leads(), at: throat.at };
  }
  const rim = (parts[own] ?? []).filter((at) => own && grid.steps.some((step) => solid[at + step]));
  if (!rim.length) return null;
  const at = rim.sort((p, q) => depth[q] - depth[p] || p - q)[0];
  if (widest >= rules.wider * radius && !leads() && arms(vessel, label, own, rim) <= 1)
    return { what: `it ends there in ${size}`, clear: widest * pitch >= rules.end_mm, at };
  return behind ? { what: `there ${size}`, clear: false, at } : null;
}

function narrowestTo({ throats, region, peaks }, group) {
  const ways = group.map(({ number }) => {
    const found = [];
    let body = region[peaks[number]];
    for (let k = throats.length - 1; k >= 0; k--)
      if (throats[k].second === body) { found.unshift(throats[k]); body = throats[k].first; }
    return found;
  });
  const common = ways[0].filter((throat) => ways.every((way) => way.includes(throat)));
  return common.length ? common.reduce((best, each) => (each.radius < best.radius ? each : best)) : null;
}

function sections(grid, is, least) { // parts of the border as large as a disc of such a radius
  return labels(grid, is, grid.all).parts.filter((part) => part.length && part.length >= Math.PI * least ** 2).length;
}

function leadsOut({ grid, mask, edge, bodies, radius, rules }, solid, label, parts, own) {
  const outside = edge.map((is, at) => (is && label[at] !== own ? 1 : 0));
  if (sections(grid, outside, rules.an_exit * radius)) return true;
  const away = squared(grid, solid);
  return parts.some((part, number) => {
    if (!number || number === own) return false;
    let deep = 0, far = 0;
    for (const at of part) { deep = Math.max(deep, bodies.depth[at]); far = Math.max(far, away[at]); }
    return deep >= Math.max(rules.an_exit * radius, 1.5) && Math.sqrt(far) >= 1.5 * deep + 1;
  });
}

function arms(vessel, label, own, rim) { // in how many directions the vessel goes on from the rim: the most
  const { grid, bodies, edge, radius, rules } = vessel, distances = rules.from_chamber;
  const limit = (distances.at(-1) + rules.shell) * radius, way = new Map(), lists = [rim.slice()];
  for (const at of rim) way.set(at, 0);
  for (let n = 0; n < lists.length; n++) // no step is shorter than a list is wide
    for (const at of lists[n] ?? []) {
      const so = way.get(at);
      if (Math.floor(so) !== n) continue;
      grid.all.forEach((step, k) => {
        const near = at + step, far = so + grid.lengths[k];
        if (label[near] !== own || far >= limit || (way.get(near) ?? Infinity) <= far) return;
        way.set(near, far);
        (lists[Math.floor(far)] ??= []).push(near);
      });
    }
  let most = 0;
  for (const distance of distances) {
    const shell = new Uint8Array(grid.count), gone = new Uint8Array(grid.count);
    for (const [at, far] of way) {
      const so = far / radius;
      if (so >= distance && so < distance + rules.shell) shell[at] = 1;
      if (so < distance && edge[at]) gone[at] = 1;
    }
    const deep = labels(grid, shell, grid.all).parts.filter((part) =>
      part.some((at) => bodies.depth[at] >= rules.an_arm * radius)).length;
    most = Math.max(most, deep + sections(grid, gone, rules.an_arm * radius));
  }
  return most;
}
