"use strict";
// The data of the page and what all of its scripts need: scores, cuts, colors, and small helpers. Text of others comes
// from the JSON block and is only ever set as text.

const data = JSON.parse(document.getElementById("turn-data").textContent);
const size = data.names.length;
const byId = (id) => document.getElementById(id);
const SCORE_STEPS = 1000;

// Which file a memory is in: the block counts the memories of each file, in order.
const fileOf = new Int32Array(size);
let filled = 0;
data.files.forEach(([, members], file) => {
  fileOf.fill(file, filled, filled + members);
  filled += members;
});

const keptRank = new Map(data.kept.map((place, index) => [place, index + 1]).filter(([place]) => place >= 0));
const nearRank = new Map(data.near.map((place, index) => [place, index + 1]).filter(([place]) => place >= 0));
const carried = new Set(data.carried);

const hasScore = (place) => data.scores[place] >= 0;
const scoreOf = (place) => data.scores[place] / SCORE_STEPS;
const pathOf = (place) => data.files[fileOf[place]][0];
const kindOf = (place) => data.kindNames[data.kinds[place]];
const languageOf = (place) => data.languageNames[data.files[fileOf[place]][2]];
const cutOf = (place) => data.thresholds[kindOf(place)] ?? data.threshold;
const passes = (place) => data.threshold !== null && hasScore(place) && scoreOf(place) >= cutOf(place) - 1e-9;
const nameOf = (place) => data.names[place] || pathOf(place) || "(one of your own memories)";

function spotOf(place) {
  const path = pathOf(place);
  const first = data.lines[place];
  if (!path) return kindOf(place);
  if (!first) return path;
  const last = first + data.lengths[place];
  return `${path}:${first}${last > first ? "-" + last : ""}`;
}

// A score that is below its cut is never shown as high as the cut.
function scoreText(place) {
  if (!hasScore(place)) return "no score";
  const score = scoreOf(place);
  const cut = cutOf(place);
  const short = score.toFixed(2);
  return cut !== null && score < cut && Number(short) >= cut ? score.toFixed(3) : short;
}

const topScore = Math.max(0.01, parts.max(data.scores) / SCORE_STEPS || 1);
const cutScore = data.threshold === null ? topScore * CUT_AT : Math.min(Math.max(data.threshold, 0.001), 0.999);
const topOfScale = data.byWords ? Math.min(1, topScore) : 1;
const fullScore = data.threshold === null ? topScore : Math.max(topOfScale, cutScore + 0.001);
const rampPlace = parts.scaleLinear().domain([0, cutScore, fullScore]).range([0, CUT_AT, 1]).clamp(true);
const RAMP_STEPS = 64;

function makeRamp() {
  const dark = isDark();
  const colors = [];
  const isLight = [];
  for (let step = 0; step <= RAMP_STEPS; step += 1) {
    const color = rampColor(step / RAMP_STEPS, dark);
    colors.push(color.formatHex());
    isLight.push(0.299 * color.r + 0.587 * color.g + 0.114 * color.b > 140);
  }
  return { colors, isLight };
}
let ramp = makeRamp();
const stepOf = (score) => Math.round(rampPlace(score) * RAMP_STEPS);
const colorOf = (score) => ramp.colors[stepOf(score)];

// What the style sheet says for now, light or dark; the browser resolves it.
const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);
function styleColor(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

const say = (words) => { byId("said").textContent = words; };
const counted = (count, one, many = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;

// Everything that is drawn in colors, drawn again when light and dark change places.
const redraws = [];
function redrawAll() {
  ramp = makeRamp();
  for (const redraw of redraws) redraw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
matchMedia("print").addEventListener("change", redrawAll);
