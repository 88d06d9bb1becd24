// How far each memory rose from the earlier turn to the later one: what the map of a comparison is colored by. It
// replaces what `details.js` says of a single turn.

const beforeOf = (place) => data.before[place] / SCORE_STEPS;
const isInBoth = (place) => hasScore(place) && data.before[place] >= 0;
const changeOf = (place) => scoreOf(place) - beforeOf(place);
const keptBefore = new Set(data.keptBefore);

// A shade is the change in steps with SCORE_STEPS for none, so that it is never below 0 but where there is nothing.
const FULL_CHANGE = 0.5; // from which the color is full
const shades = Array.from({ length: size }, (_, place) => (isInBoth(place) ? data.scores[place] - data.before[place] + SCORE_STEPS : -1));
const strengthOf = (shade) => (shade < 0 ? -1 : Math.abs(shade - SCORE_STEPS));
const inOrder = Array.from({ length: size }, (_, place) => place).filter(isInBoth)
  .sort((a, b) => strengthOf(shades[b]) - strengthOf(shades[a]));
const passedOver = data.keptBefore.filter((place) => !keptRank.has(place)); // with a dashed outline

let changeRamp;
function makeChangeRamp() {
  const [fell, same, rose] = ["--fell-full", "--same", "--rose-full"].map((name) => parts.rgb(styleColor(name)));
  changeRamp = parts.scaleLinear().domain([-FULL_CHANGE, 0, FULL_CHANGE]).range([fell, same, rose]).clamp(true);
}
makeChangeRamp();
redraws.push(makeChangeRamp);
const fillOf = (shade) => changeRamp((shade - SCORE_STEPS) / SCORE_STEPS);
function isLightOn(shade) {
  const color = parts.rgb(fillOf(shade));
  return 0.299 * color.r + 0.587 * color.g + 0.114 * color.b > 140;
}

const signed = (change) => `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(2)}`;
const scoreWords = (steps) => (steps < 0 ? "no score" : (steps / SCORE_STEPS).toFixed(2));
const figureOf = (place) => (isInBoth(place) ? signed(changeOf(place)) : "in one turn only");
const shadeWords = (shade) => (shade < 0 ? "none is in both turns" : `strongest change ${signed((shade - SCORE_STEPS) / SCORE_STEPS)}`);
function stateOf(place) {
  if (keptRank.has(place)) return keptBefore.has(place) ? "chosen both times" : "chosen now";
  return keptBefore.has(place) ? "chosen before" : "";
}

const panel = byId("panel");
function showDetails(place) {
  const rows = [["Before", scoreWords(data.before[place])], ["Now", scoreWords(data.scores[place])], ["Change", figureOf(place)]];
  const list = make("dl", { className: "facts" });
  for (const [name, value] of rows) list.append(make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })));
  const about = [kindOf(place), languageOf(place), stateOf(place)].filter(Boolean).join(" · ");
  panel.replaceChildren(
    make("h3", { textContent: nameOf(place) }),
    make("p", { className: "path", textContent: spotOf(place) }),
    list,
    make("p", { className: "path", textContent: about }),
  );
  if (data.reasons[place]) panel.append(make("p", { textContent: data.reasons[place] }));
  panel.scrollTop = 0;
}
