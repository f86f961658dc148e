"use strict";
// The case file: what the user gave before, and what was chosen on the page, as YAML.

function regionVoxels() { // the box in voxels of the loaded image
  const grid = facts.grids[0], last = box.high.map((n) => n - 1);
  const [a, b, next] = [box.low, last, last.map((n) => n + 1)].map((index) => toIndex(grid, toMm(index)));
  const low = a.map((n, k) => Math.round(Math.min(n, b[k])));
  const high = a.map((n, k) => Math.round(Math.max(n, b[k])) + Math.max(Math.round(Math.abs(next[k] - b[k])), 1));
  return { low: low.map((n) => Math.max(n, 0)), high: high.map((n, k) => Math.min(n, grid.size[k])) };
}

const rounded = (values, digits = 2) => values.map((x) => +x.toFixed(digits) + 0);
const filled = (section) => Object.fromEntries(Object.entries(section).filter(([, value]) => value !== undefined));

function caseSections() {
  const given = structuredClone(facts.case), seeds = ofKind("seed");
  const inlets = openings.filter(({ role }) => role === "inlet");
  const places = (kind) => (ofKind(kind).length ? ofKind(kind).map(({ mm }) => rounded(mm)) : undefined);
  given.input ??= { dicom: facts.path };
  if (!whole()) {
    const { region_mm, region_voxels, region_grown, ...others } = given.filter ?? {};
    given.filter = { ...others, region_voxels: regionVoxels() };
  }
  given.segment = filled({
    ...given.segment, seeds_mm: places("seed"), background_mm: places("background"),
    cut_planes: ofKind("cut").length ? ofKind("cut").map(({ mm, normal, radius_mm }) => filled({
      point_mm: rounded(mm), normal: rounded(normal, 4), radius_mm: radius_mm ?? undefined,
    })) : undefined,
    lower: state.coloured && !state.automatic && seeds.length ? +state.threshold.toFixed(DECIMALS) : given.segment?.lower,
  });
  const marked = openings.map(({ name, role, near_mm, rest }) => ({ name, role, near_mm: rounded(near_mm), ...rest }));
  given.surface = filled({ ...given.surface, openings: marked.length ? marked : undefined });
  const before = given.solve?.inlets ?? {};
  const asTyped = ({ name, flow_ml_s }) => {
    const entry = filled({ ...(before[name] ?? before["*"]), flow_ml_s: flow_ml_s ?? undefined });
    return [name, entry.flow_ml_s || entry.waveform ? entry : { flow_ml_s: FLOW }];
  };
  given.solve = { ...given.solve, inlets: inlets.length ? Object.fromEntries(inlets.map(asTyped)) : before };
  if (!Object.keys(given.solve.inlets).length) given.solve.inlets = { "*": { flow_ml_s: FLOW } };
  return given;
}

const word = (text) => (/^[A-Za-z][\w./-]*( [\w./-]+)*$/.test(text) && !/^(null|true|false|yes|no|on|off)$/i.test(text)
  ? text : JSON.stringify(text));

function inLine(value) { // YAML in one line
  if (Array.isArray(value)) return `[${value.map(inLine).join(", ")}]`;
  if (value && typeof value === "object")
    return `{${Object.entries(value).map(([key, each]) => `${word(key)}: ${inLine(each)}`).join(", ")}}`;
  return typeof value === "string" ? word(value) : String(value);
}

function lines(sections, indent = "") { // YAML, innermost sections in a line
  const mapping = (value) => Boolean(value) && typeof value === "object";
  const holds = (value) => Object.values(value).some(mapping);
  return Object.entries(sections).flatMap(([key, value]) => {
    const name = `${indent}${word(key)}:`;
    if (Array.isArray(value) && value.some((each) => mapping(each) && !Array.isArray(each)))
      return [name, ...value.map((each) => `${indent}  - ${inLine(each)}`)];
    const section = mapping(value) && !Array.isArray(value) && (holds(value) || !indent);
    return section ? [name, ...lines(value, `${indent}  `)] : [`${name} ${inLine(value)}`];
  });
}

function caseFile() {
  const sections = caseSections(), names = [...ORDER, ...Object.keys(sections)];
  const kept = [...new Set(names)].filter((name) => JSON.stringify(sections[name] ?? {}) !== "{}");
  const text = lines(Object.fromEntries(kept.map((name) => [name, sections[name]]))).join("\n");
  const missing = stillMissing(text);
  $("missing").textContent = missing.length ? `Not yet in it: ${missing.join("; ")}.` : "";
  return `# Made on the page pick.html. Places: LPS, mm.\n${text}\n`;
}

function stillMissing(text) {
  const twice = ({ name }, n) => openings.findIndex((each) => each.name === name) < n;
  const astray = openings.filter(({ away }) => away > FAR_MM);
  return [
    ...(ofKind("seed").length ? [] : ["a seed in the vessel, or one is looked for in the whole region"]),
    ...(openings.length ? [] : ["openings, or the largest is the inlet and the names are given by size"]),
    ...(!openings.length || openings.some(({ role }) => role === "inlet") ? []
      : ["an inlet, or the largest of the other openings is taken"]),
    ...(text.includes(FLOW) ? ["the flow through each inlet, in mL/s"] : []),
    ...(text.includes(facts.path) ? [`the path in place of \u201c${facts.path}\u201d, as in your case file`] : []),
    ...openings.filter((each, n) => !NAME.test(each.name) || twice(each, n))
      .map(({ name }) => `another name for the opening \u201c${name}\u201d: letters, digits and _ . -, each once`),
    ...astray.map(({ name, away }) => `the opening \u201c${name}\u201d on the surface: it lies ${away.toFixed(0)} mm`
      + " away from it"),
  ];
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([$("yaml").textContent], { type: "text/yaml" }));
  link.download = `${$("case").textContent}.yaml`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
