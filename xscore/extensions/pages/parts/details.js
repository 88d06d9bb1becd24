// The memory that is picked on the map: score, boosts, neighbors of the graph, the sentence of `explain`, its text.

const panel = byId("panel");

// Links of the graph, by memory: [other, relation, whether it points here].
const linksOf = new Map();
for (let at = 0; at < data.links.length; at += 3) {
  const [source, target, relation] = data.links.slice(at, at + 3);
  for (const [here, there, isIncoming] of [[source, target, false], [target, source, true]]) {
    if (!linksOf.has(here)) linksOf.set(here, []);
    linksOf.get(here).push([there, data.relations[relation], isIncoming]);
  }
}
const OUTWARD = { calls: "calls", imports: "imports", tests: "tests", belongs_to: "is part of", references: "names" };
const INWARD = { calls: "called by", imports: "imported by", tests: "tested by", belongs_to: "has", references: "named by" };
const NEIGHBORS_SHOWN = 14;

// All that have a score, best first, the chosen before their equals; equal scores share a rank.
const inOrder = Array.from({ length: size }, (_, place) => place).filter(hasScore)
  .sort((a, b) => data.scores[b] - data.scores[a] || (keptRank.get(a) ?? size) - (keptRank.get(b) ?? size));
const rankOf = new Map();
inOrder.forEach((place, index) => {
  const before = inOrder[index - 1];
  rankOf.set(place, index && data.scores[before] === data.scores[place] ? rankOf.get(before) : index + 1);
});

// What the map is colored by, -1 where there is nothing: here the score. The comparison of two turns has its own.
const shades = data.scores;
const fillOf = (shade) => ramp.colors[stepOf(shade / SCORE_STEPS)];
const isLightOn = (shade) => ramp.isLight[stepOf(shade / SCORE_STEPS)];
const strengthOf = (shade) => shade;
const figureOf = scoreText;
const shadeWords = (shade) => `best score ${shade < 0 ? "none" : (shade / SCORE_STEPS).toFixed(2)}`;
function stateOf(place) {
  if (keptRank.has(place)) return "chosen";
  return passes(place) ? "passed, not chosen" : "";
}
const passedOver = inOrder.filter((place) => passes(place) && !keptRank.has(place)).slice(0, 400); // with a dashed outline

function sentenceOf(place) {
  const sentence = data.sentences[place];
  if (sentence) return sentence;
  if (!hasScore(place)) return "No score of it is stored for this question: it was left unjudged, is new, or was edited since.";
  if (data.threshold === null) return "The turn has no receipt, so it is unknown whether it would have been chosen.";
  const rank = scoreOf(place) >= 0.005 ? `, ${rankOf.get(place).toLocaleString("en")} of ${inOrder.length.toLocaleString("en")} in order` : "";
  if (passes(place)) return `It passed with ${scoreText(place)}, and others took the places${rank}.`;
  return `It was judged and not chosen: ${scoreText(place)} is below the cut of ${cutOf(place)}${rank}.`;
}

function commandOf(place) {
  const path = pathOf(place);
  const name = path ? path + (data.names[place] ? "::" + data.names[place] : "") : data.ids[place];
  const quoted = /^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", `'"'"'`)}'`;
  return `xscore explain ${quoted} --turn ${data.turn}`;
}

function gauge(place) {
  const bar = make("div", { className: "gauge" });
  bar.setAttribute("aria-hidden", "true");
  const fill = make("div", { className: "fill" });
  fill.style.width = `${100 * rampPlace(scoreOf(place))}%`;
  fill.style.background = colorOf(scoreOf(place));
  bar.append(fill);
  if (cutOf(place) !== null) {
    const line = make("div", { className: "line" });
    line.style.left = `${100 * rampPlace(cutOf(place))}%`;
    bar.append(line);
  }
  return bar;
}

function boostList(place) {
  const list = make("ul", { className: "boosts" });
  const first = hasScore(place) && data.raw[place] >= 0 ? (data.raw[place] / SCORE_STEPS).toFixed(2) : "–";
  list.append(make("li", {}, make("b", { textContent: first }), data.byWords ? " words" : " the judge"));
  for (const [name, amount, because] of data.boosts[place] ?? []) {
    const signed = `${amount < 0 ? "−" : "+"}${Math.abs(amount).toFixed(2)}`;
    const words = name === "words" ? ` its words: it shares ${amount < 0 ? "few" : "many"} with the question` : ` ${name}: ${because}`;
    list.append(make("li", {}, make("b", { textContent: signed }), words));
  }
  const difference = (data.scores[place] - data.raw[place]) / SCORE_STEPS;
  if (!data.boosts[place] && hasScore(place) && Math.abs(difference) >= 0.005) {
    const signed = `${difference < 0 ? "−" : "+"}${Math.abs(difference).toFixed(2)}`;
    list.append(make("li", {}, make("b", { textContent: signed }), " words and boosts together"));
  }
  return list;
}

function neighborList(place) {
  const links = linksOf.get(place) ?? [];
  const list = make("ul", { className: "neighbors" });
  const best = [...links].sort((a, b) => data.scores[b[0]] - data.scores[a[0]]);
  for (const [there, relation, isIncoming] of best.slice(0, NEIGHBORS_SHOWN)) {
    const words = (isIncoming ? INWARD : OUTWARD)[relation] ?? relation;
    const go = make("button", { type: "button" }, make("i", { textContent: `${words} ` }), nameOf(there), make("i", { textContent: ` ${scoreText(there)}` }));
    go.addEventListener("click", () => pick(there, { moves: true }));
    list.append(make("li", {}, go));
  }
  if (links.length > NEIGHBORS_SHOWN) list.append(make("li", { textContent: `and ${links.length - NEIGHBORS_SHOWN} more` }));
  return list;
}

function listedElement(place) {
  if (keptRank.has(place)) return byId(`kept-${keptRank.get(place)}`);
  return nearRank.has(place) ? byId(`near-${nearRank.get(place)}`) : null;
}

function openAround(element) {
  for (let box = element.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
}

function showDetails(place) {
  const where = pathOf(place) ? spotOf(place) : kindOf(place);
  let state = stateOf(place);
  if (keptRank.has(place)) state = `chosen, place ${keptRank.get(place)}`;
  else if (!state && hasScore(place)) state = "not chosen";
  const head = make("div", { className: "big" }, make("b", { textContent: scoreText(place) }), make("span", { textContent: state }));
  const about = [kindOf(place), languageOf(place), data.layerNames[data.layers[place]], counted(data.tokens[place], "token")];
  if (carried.has(place)) about.push("carried over");
  panel.replaceChildren(make("h3", { textContent: nameOf(place) }), make("p", { className: "path", textContent: where }), head);
  if (hasScore(place)) panel.append(gauge(place));
  if (data.reasons[place]) panel.append(make("p", { textContent: data.reasons[place] }));
  panel.append(make("p", { textContent: sentenceOf(place) }), boostList(place));
  panel.append(make("p", { className: "path", textContent: about.filter(Boolean).join(" · ") }));
  if (linksOf.has(place)) panel.append(make("h4", { textContent: "Linked by the graph" }), neighborList(place));
  const listed = listedElement(place);
  const text = listed?.querySelector("pre.code");
  if (text) {
    const copy = text.cloneNode(true);
    panel.append(make("h4", { textContent: "Text" }), copy);
    colorCode(copy);
  }
  panel.append(make("h4", { textContent: "The same in a terminal" }), make("p", { className: "command" }, make("code", { textContent: commandOf(place) })));
  const acts = make("div", { className: "panel-acts" });
  if (listed) {
    const go = make("button", { type: "button", textContent: "Show in the list" });
    go.addEventListener("click", () => { openAround(listed); listed.scrollIntoView({ block: "start" }); listed.querySelector("summary").focus(); });
    acts.append(go);
  }
  panel.append(acts);
  panel.scrollTop = 0;
}
