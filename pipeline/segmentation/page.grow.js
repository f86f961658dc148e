"use strict";
// What would grow from the seeds, in a worker, so that the page never waits. The rule is that of the stage
// (region_growing.py, leak.py, levels.py): voxels from the threshold upwards, six-connected to a seed, inside the box,
// not over a cut plane.
//
// Growing finds for every voxel the highest threshold at which it still hangs on a seed: the largest, over all paths to
// a seed, of the smallest level on the path. Voxels are taken in the order of this level, highest first, from one list
// a level; each enters a list once. So one pass serves all thresholds above the one that it has reached, and a lower
// one goes on from there.

const BLOCKED = 65535; // level of what nothing grows into: cut planes, what is above `upper`, the rim around the box
let image = null; // { levels, size, spacing, rules, lowest, step } of the whole page
let field = null; // the box: levels and what has been found of them

function begin({ box, seeds, planes }) {
  const { levels, size, spacing, rules } = image;
  const inner = box.high.map((n, axis) => n - box.low[axis]);
  const wide = inner.map((n) => n + 2); // a rim of blocked voxels saves all tests for the border
  const strides = [1, wide[0], wide[0] * wide[1]];
  const count = wide[0] * wide[1] * wide[2];
  const own = new Uint16Array(count).fill(BLOCKED);
  const upper = rules.upper === null ? BLOCKED - 1 : Math.floor((rules.upper - image.lowest) / image.step + 1e-6);
  for (let z = 0; z < inner[2]; z++)
    for (let y = 0; y < inner[1]; y++) {
      let from = box.low[0] + size[0] * (box.low[1] + y + size[1] * (box.low[2] + z));
      let to = 1 + strides[1] * (y + 1) + strides[2] * (z + 1);
      for (let x = 0; x < inner[0]; x++, from++, to++) if (levels[from] <= upper) own[to] = levels[from];
    }
  const local = (voxel) => voxel.reduce((sum, n, axis) => sum + (n - box.low[axis] + 1) * strides[axis], 0);
  const inside = (voxel) => voxel.every((n, axis) => n >= box.low[axis] && n < box.high[axis]);
  for (const plane of planes) block(own, plane, box, inner, strides, spacing);
  field = {
    box, inner, wide, strides, levels: own,
    steps: [1, -1, strides[1], -strides[1], strides[2], -strides[2]],
    reached: new Uint16Array(count), // 1 + the level at which a voxel hangs on a seed; 0: none found so far
    next: new Int32Array(count), heads: new Int32Array(BLOCKED).fill(-1), // the lists
    counts: new Float64Array(BLOCKED), // voxels that hang on a seed at this level and not above
    top: 0, floor: Infinity,
    seeds: seeds.map((voxel) => (inside(voxel) ? local(voxel) : -1)),
  };
  for (const at of field.seeds) if (at >= 0 && own[at] !== BLOCKED && !field.reached[at]) put(at, own[at]);
}

function block(levels, { centre, normal, radius_mm }, box, inner, strides, spacing) { // as barrier.layer
  const length = Math.hypot(...normal), unit = normal.map((n) => n / length);
  const half = Math.max(...unit.map((n, axis) => Math.abs(n) * spacing[axis])) / 2 * (1 + 1e-9);
  const away = [0, 0, 0];
  for (let z = 0; z < inner[2]; z++) {
    away[2] = (box.low[2] + z) * spacing[2] - centre[2];
    for (let y = 0; y < inner[1]; y++) {
      away[1] = (box.low[1] + y) * spacing[1] - centre[1];
      for (let x = 0; x < inner[0]; x++) {
        away[0] = (box.low[0] + x) * spacing[0] - centre[0];
        const distance = unit[0] * away[0] + unit[1] * away[1] + unit[2] * away[2];
        if (distance < -half || distance >= half) continue;
        const square = away[0] ** 2 + away[1] ** 2 + away[2] ** 2 - distance ** 2;
        if (radius_mm === null || square <= radius_mm ** 2)
          levels[x + 1 + strides[1] * (y + 1) + strides[2] * (z + 1)] = BLOCKED;
      }
    }
  }
}

function put(at, level) {
  field.reached[at] = level + 1;
  field.next[at] = field.heads[level];
  field.heads[level] = at;
  field.counts[level]++;
  if (level > field.top) field.top = level;
}

function growTo(floor) {
  const { levels, reached, next, heads, counts, steps } = field;
  if (floor >= field.floor) return;
  for (let top = field.top; top >= floor; top--) {
    field.top = top;
    for (let at = heads[top]; at >= 0; at = heads[top]) {
      heads[top] = next[at];
      for (let k = 0; k < 6; k++) {
        const near = at + steps[k], level = levels[near];
        if (reached[near] || level === BLOCKED) continue;
        const joined = level < top ? level : top;
        reached[near] = joined + 1;
        next[near] = heads[joined];
        heads[joined] = near;
        counts[joined]++;
      }
    }
  }
  field.floor = floor;
}

// ---- what is told of a region ----

function list(level) { // its voxels, those that hang on the first seed first; the seeds that do not; the seeds below
  const { reached, steps, seeds } = field;
  let count = 0;
  for (let at = level; at < field.counts.length; at++) count += field.counts[at];
  const voxels = new Int32Array(count), seen = new Uint8Array(reached.length);
  let end = 0;
  const from = (seed) => {
    if (seed < 0 || seen[seed] || reached[seed] <= level) return;
    let next = end;
    seen[seed] = 1;
    voxels[end++] = seed;
    while (next < end) {
      const at = voxels[next++];
      for (let k = 0; k < 6; k++) {
        const near = at + steps[k];
        if (seen[near] || reached[near] <= level) continue;
        seen[near] = 1;
        voxels[end++] = near;
      }
    }
  };
  from(seeds[0]);
  const first = end;
  const those = (test) => [...seeds.keys()].filter((n) => test(seeds[n]));
  const outside = those((seed) => seed < 0), low = those((seed) => seed >= 0 && reached[seed] <= level);
  const apart = those((seed) => reached[seed] > level && !seen[seed]).filter((n) => n > 0);
  seeds.forEach(from);
  return { voxels, seen, first, apart, low, outside };
}

const place = (at) => { // index in the box, without the rim
  const { strides } = field;
  const z = Math.floor(at / strides[2]), y = Math.floor((at - z * strides[2]) / strides[1]);
  return [at - z * strides[2] - y * strides[1] - 1, y - 1, z - 1];
};

function bounds(voxels) {
  const low = [...field.inner], high = [0, 0, 0], { strides } = field;
  for (const at of voxels) {
    const z = Math.floor(at / strides[2]), rest = at - z * strides[2], y = Math.floor(rest / strides[1]);
    const x = rest - y * strides[1] - 1;
    if (x < low[0]) low[0] = x;
    if (x >= high[0]) high[0] = x + 1;
    if (y - 1 < low[1]) low[1] = y - 1;
    if (y > high[1]) high[1] = y;
    if (z - 1 < low[2]) low[2] = z - 1;
    if (z > high[2]) high[2] = z;
  }
  return { low, high };
}

function cavities(voxels, seen) { // voxels that the region encloses, no six-connected path leads out
  const { low, high } = bounds(voxels), { strides } = field;
  const size = high.map((n, axis) => n - low[axis] + 2), steps = [1, size[0], size[0] * size[1]];
  const total = size[0] * size[1] * size[2];
  const closed = new Uint8Array(total), queue = new Int32Array(total);
  for (let z = 0; z < size[2] - 2; z++)
    for (let y = 0; y < size[1] - 2; y++) {
      let from = low[0] + 1 + strides[1] * (low[1] + y + 1) + strides[2] * (low[2] + z + 1);
      let to = 1 + steps[1] * (y + 1) + steps[2] * (z + 1);
      for (let x = 0; x < size[0] - 2; x++, from++, to++) closed[to] = seen[from];
    }
  let end = 1;
  closed[0] = 1;
  for (let next = 0; next < end; next++) {
    const at = queue[next], x = at % size[0], y = Math.floor(at / steps[1]) % size[1], z = Math.floor(at / steps[2]);
    const visit = (near) => { if (!closed[near]) { closed[near] = 1; queue[end++] = near; } };
    if (x > 0) visit(at - 1);
    if (x < size[0] - 1) visit(at + 1);
    if (y > 0) visit(at - steps[1]);
    if (y < size[1] - 1) visit(at + steps[1]);
    if (z > 0) visit(at - steps[2]);
    if (z < size[2] - 1) visit(at + steps[2]);
  }
  return total - end - voxels.length;
}

function contact(voxels) { // the part of each face of the box that the region covers: [axis][low, high]
  const { inner, strides } = field, counts = [[0, 0], [0, 0], [0, 0]];
  for (const at of voxels) {
    const z = Math.floor(at / strides[2]), rest = at - z * strides[2], y = Math.floor(rest / strides[1]);
    const index = [rest - y * strides[1] - 1, y - 1, z - 1];
    for (let axis = 0; axis < 3; axis++) {
      if (index[axis] === 0) counts[axis][0]++;
      if (index[axis] === inner[axis] - 1) counts[axis][1]++;
    }
  }
  return counts.map((both, axis) => both.map((n) => n / (inner[(axis + 1) % 3] * inner[(axis + 2) % 3])));
}

function quantile(counts, share) { // of levels, from a histogram
  let total = 0, sum = 0;
  for (const count of counts) total += count;
  for (let level = 0; level < counts.length; level++) {
    sum += counts[level];
    if (total && sum >= share * total && counts[level]) return level;
  }
  return null;
}

function deviation(counts, median) { // standard deviation of a normal distribution, from the median distance
  const away = new Float64Array(counts.length);
  counts.forEach((count, level) => { away[Math.abs(level - median)] += count; });
  return image.rules.mad_to_sigma * quantile(away, 0.5);
}

function lumenLevel(voxels, level) { // of the core: what hangs on a seed half way between threshold and seeds
  const { levels, reached, seeds } = field;
  const own = seeds.filter((seed) => reached[seed] > level).map((seed) => levels[seed]).sort((a, b) => a - b);
  const halfWay = (level + own[own.length >> 1]) / 2;
  const counts = new Float64Array(BLOCKED), all = new Float64Array(BLOCKED);
  for (const at of voxels) {
    all[levels[at]]++;
    if (reached[at] - 1 >= halfWay) counts[levels[at]]++;
  }
  const lumen = quantile(counts, 0.5);
  return { lumen, spread: deviation(counts, lumen), median: quantile(all, 0.5) };
}

function surroundings(voxels, level) { // of the soft tissue two to four voxels away, as levels.py has it
  const { levels, steps } = field, [inner, outer] = image.rules.shell;
  const seen = new Uint8Array(levels.length), shell = [];
  let front = voxels;
  for (const at of voxels) seen[at] = 1;
  for (let distance = 1; distance <= outer; distance++) {
    const next = [];
    for (const at of front)
      for (let k = 0; k < 6; k++) {
        const near = at + steps[k];
        if (seen[near] || levels[near] === BLOCKED) continue;
        seen[near] = 1;
        next.push(near);
        if (distance > inner) shell.push(near);
      }
    front = next;
  }
  const dark = darkLevel(level);
  const fits = (at, least) => {
    const level0 = levels[at];
    return level0 === BLOCKED || (level0 < level && level0 >= least);
  };
  const tissue = (least) => shell.filter((at) => fits(at, least) && steps.every((step) => fits(at + step, least)));
  const enough = (part) => part.length >= Math.max(image.rules.tissue_part * shell.length, 1);
  const chosen = [dark, -Infinity].map(tissue).find(enough) ?? shell, counts = new Float64Array(BLOCKED);
  for (const at of chosen) counts[levels[at]]++;
  const noise = noiseOf(chosen) ?? noiseOf(shell);
  return noise === null ? null : { median: quantile(counts, 0.5), quartile: quantile(counts, 0.75), noise };
}

function noiseOf(part) { // from differences of voxels some apart along an axis; at least that of rounding to levels
  const { levels, steps } = field, within = new Uint8Array(levels.length), counts = new Float64Array(BLOCKED);
  let count = 0;
  for (const at of part) within[at] = 1;
  for (const at of part)
    for (let k = 0; k < 6; k += 2) {
      const other = at + image.rules.noise_lag * steps[k];
      if (other >= levels.length || !within[other]) continue;
      counts[Math.abs(levels[at] - levels[other])]++;
      count++;
    }
  return count ? Math.max(image.rules.mad_to_sigma * quantile(counts, 0.5) / Math.SQRT2, 0.29) : null;
}

function darkLevel(level) { // below it there is no soft tissue: of CT, or by two classes of what is darker (no_signal)
  const { lowest, step, rules } = image;
  if (rules.dark !== null) return (rules.dark - lowest) / step;
  const counts = new Float64Array(level), { levels } = field;
  for (const each of levels) if (each < level) counts[each]++;
  let total = 0, sum = 0;
  counts.forEach((count, n) => { total += count; sum += count * n; });
  let below = 0, sumBelow = 0, best = -1, limit = 0;
  counts.forEach((count, n) => { // Otsu 1979
    below += count;
    sumBelow += count * n;
    if (!below || below === total) return;
    const between = below * (total - below) * (sumBelow / below - (sum - sumBelow) / (total - below)) ** 2;
    if (between > best) [best, limit] = [between, n];
  });
  const brighter = counts.map((count, n) => (n > limit ? count : 0));
  const darker = counts.map((count, n) => count - brighter[n]);
  const [dark, bright] = [quantile(darker, 0.5), quantile(brighter, 0.5)];
  if (dark === null || bright === null) return -Infinity;
  const floor = Math.min(quantile(counts, rules.floor), -lowest / step);
  const share = brighter.reduce((a, b) => a + b, 0) / total;
  return dark - floor <= rules.no_signal * (bright - floor) && share >= rules.signal_part ? limit : -Infinity;
}

function growthTable(threshold, lumen, contrast) { // voxels at thresholds from a step below on, in levels
  const { counts } = field, step = image.rules.leak_step * contrast;
  const last = Math.max(Math.floor((lumen - threshold) / step), 1), above = new Float64Array(counts.length + 1);
  for (let level = counts.length - 1; level >= 0; level--) above[level] = above[level + 1] + counts[level];
  const rows = [];
  for (let n = -1; n <= last; n++) {
    const level = threshold + n * step;
    rows.push({ level, voxels: above[Math.max(Math.ceil(level - 1e-9), 0)] });
  }
  return rows;
}

function findLeak(rows, threshold, lumen) { // as leak.find_leak
  const limit = image.rules.leak_growth, middle = (threshold + lumen) / 2;
  const ratio = (low, high) => rows[low].voxels / Math.max(rows[high].voxels, 1);
  let jump = -1;
  for (let n = 1; n < rows.length - 1; n++) if (rows[n].level <= middle && ratio(n, n + 1) > limit ** 2) jump = n;
  let leak;
  if (jump >= 0) leak = { fault: "leaks", limit: limit ** 2, low: jump, high: jump + 1 };
  else if (ratio(0, 2) > limit) leak = { fault: "leaks, or nearly", limit, low: 0, high: 2 };
  else return null;
  let clear = null;
  for (let n = leak.high; n < rows.length - 1 && clear === null; n++)
    if (ratio(n - 1, n + 1) <= limit) clear = rows[n].level;
  return { fault: leak.fault, limit: leak.limit, below: rows[leak.low], above: rows[leak.high], clear };
}

// ---- its surface: faces between voxels inside and outside, with smooth normals ----

const MOST_FACES = 600000;

function surface(voxels, seen) {
  const { steps, strides, box } = field, { spacing } = image;
  let count = 0;
  for (const at of voxels) for (let k = 0; k < 6; k++) count += 1 - seen[at + steps[k]];
  if (count > MOST_FACES) return null;
  const centres = new Float32Array(3 * count), normals = new Float32Array(3 * count), sides = new Uint8Array(count);
  const reach = spacing.map((mm) => Math.min(Math.max(Math.round(1.5 * Math.max(...spacing) / mm), 1), 4));
  const around = [];
  for (let z = -reach[2]; z <= reach[2]; z++)
    for (let y = -reach[1]; y <= reach[1]; y++)
      for (let x = -reach[0]; x <= reach[0]; x++) around.push([x, y, z]);
  let face = 0;
  for (const at of voxels) {
    let exposed = false;
    for (let k = 0; k < 6 && !exposed; k++) exposed = !seen[at + steps[k]];
    if (!exposed) continue;
    const index = place(at), normal = [0, 0, 0];
    for (const [x, y, z] of around) {
      const near = [index[0] + x, index[1] + y, index[2] + z];
      const within = near.every((n, axis) => n >= 0 && n < field.inner[axis]);
      if (!within || !seen[at + x + y * strides[1] + z * strides[2]]) continue;
      normal[0] -= x * spacing[0]; normal[1] -= y * spacing[1]; normal[2] -= z * spacing[2];
    }
    for (let k = 0; k < 6; k++) {
      if (seen[at + steps[k]]) continue;
      const axis = k >> 1, sign = k % 2 ? -1 : 1;
      const flat = normal.every((n) => n === 0) ? [0, 1, 2].map((n) => (n === axis ? sign : 0)) : normal;
      const length = Math.hypot(...flat);
      for (let n = 0; n < 3; n++) {
        centres[3 * face + n] = (box.low[n] + index[n] + (n === axis ? sign / 2 : 0)) * spacing[n];
        normals[3 * face + n] = flat[n] / length;
      }
      sides[face++] = k;
    }
  }
  return { centres, normals, sides };
}

// ---- answers ----

// Voxels from which a region that fills a face of the box is looked at no closer: it has leaked.
const MOST_JUDGED = 1e6;

function tell(level) {
  growTo(level);
  const { voxels, seen, first, apart, low, outside } = list(level);
  const told = { level, count: voxels.length, first, apart, low, outside, filled: 0, lumen: null };
  if (!first || low.includes(0)) return { told, parts: null };
  told.bounds = bounds(voxels);
  told.contact = contact(voxels);
  told.flooded = voxels.length > MOST_JUDGED && Math.max(...told.contact.flat()) > image.rules.border_fraction;
  if (told.flooded) return { told, parts: null };
  told.filled = image.rules.fill_holes ? cavities(voxels, seen) : 0;
  const around = surroundings(voxels, level);
  if (around) {
    const { lumen, spread, median } = lumenLevel(voxels, level), contrast = lumen - around.median;
    Object.assign(told, { lumen, spread: Math.max(spread, around.noise), median, around });
    growTo(Math.max(Math.floor(level - image.rules.leak_step * contrast), 0));
    told.leak = findLeak(growthTable(level, lumen, contrast), level, lumen);
  }
  told.left = image.rules.least_radius_mm === null ? departuresOf(voxels, seen, told.bounds) : [];
  return { told, parts: surface(voxels, seen) };
}

onmessage = ({ data }) => {
  if (data.image) { image = data.image; return; }
  const start = performance.now();
  if (data.problem) begin(data.problem);
  if (!field) return;
  const before = field.floor;
  const { told, parts } = tell(data.level);
  const reached = data.problem || field.floor < before ? field.reached.slice() : null;
  const moved = [...(reached ? [reached] : []), ...Object.values(parts ?? {})].map((each) => each.buffer);
  told.ms = performance.now() - start;
  postMessage({ number: data.number, told, parts, reached, wide: field.wide, box: field.box }, moved);
};
