// The legend of the map, the spread of the scores with its slider, and the calls: d3's scales and axes, drawn as SVG.

const kindsByCount = data.kindNames
  .map((name, kind) => ({ name, kind, places: inOrder.filter((place) => data.kinds[place] === kind) }))
  .filter((group) => group.places.length)
  .sort((a, b) => b.places.length - a.places.length);
const ROWS_SHOWN = 8;

function drawLegend() {
  const svg = parts.select("#legend");
  const wide = Math.max(220, svg.node().clientWidth);
  svg.attr("viewBox", `0 0 ${wide} 46`).selectAll("*").remove();
  const reach = [8, wide - 12];
  const at = (score) => reach[0] + rampPlace(score) * (reach[1] - reach[0]);
  ramp.colors.forEach((color, step) => {
    const one = (reach[1] - reach[0]) / ramp.colors.length;
    svg.append("rect").attr("x", reach[0] + step * one).attr("y", 10).attr("width", one + 0.6).attr("height", 12).attr("fill", color).style("fill", color).style("stroke", "none");
  });
  const ticks = parts.scaleLinear().domain([0, fullScore]).ticks(data.byWords ? 5 : 6);
  const scale = parts.scaleLinear().domain(rampPlace.domain()).range(rampPlace.range().map((place) => reach[0] + place * (reach[1] - reach[0])));
  const axis = parts.axisBottom(scale).tickValues(ticks).tickSize(4).tickFormat((score) => String(Number(score.toFixed(3))));
  svg.append("g").attr("class", "axis-of").attr("transform", "translate(0,22)").call(axis);
  if (data.threshold === null) return;
  svg.append("line").attr("class", "cut-line").attr("x1", at(data.threshold)).attr("x2", at(data.threshold)).attr("y1", 4).attr("y2", 26);
  svg.append("text").attr("class", "strong").attr("x", at(data.threshold) + 4).attr("y", 7).text(`cut ${data.threshold}`);
}

// Scores by kind: a row for each of the commonest, bars on a logarithmic height, since most memories fit nothing.
const BINS = 40;
let otherCut; // of the slider; undefined until it is moved
function drawSpread() {
  const svg = parts.select("#spread");
  if (svg.empty()) return;
  const wide = Math.max(300, Math.min(svg.node().clientWidth, 1600));
  const shown = kindsByCount.slice(0, ROWS_SHOWN);
  const rest = kindsByCount.slice(ROWS_SHOWN);
  const groups = rest.length ? [...shown, { name: `${rest.length} more kinds`, places: rest.flatMap((group) => group.places) }] : shown;
  const rowTall = 44, left = wide < 520 ? 104 : 120;
  const tall = groups.length * rowTall + 34;
  svg.attr("viewBox", `0 0 ${wide} ${tall}`).attr("width", wide).attr("height", tall).selectAll("*").remove();
  const most = data.byWords || data.threshold === null ? fullScore : 1;
  const across = parts.scaleLinear().domain([0, most]).range([left, wide - 16]);
  const edges = Array.from({ length: BINS - 1 }, (_, index) => ((index + 1) * most) / BINS);
  const binned = groups.map((group) => parts.bin().domain([0, most]).thresholds(edges)(group.places.map(scoreOf)));
  const highest = parts.max(binned.flat(), (bin) => bin.length) || 1;
  const up = parts.scaleSymlog().constant(1).domain([0, highest]).range([0, rowTall - 12]);
  groups.forEach((group, row) => {
    const base = row * rowTall + rowTall;
    const line = svg.append("g");
    line.append("line").attr("x1", left).attr("x2", wide - 16).attr("y1", base).attr("y2", base).attr("class", "axis-of").style("stroke", "var(--rule)");
    line.append("text").attr("x", left - 8).attr("y", base - 12).attr("text-anchor", "end").attr("class", "strong").text(group.name.replaceAll("_", " "));
    line.append("text").attr("x", left - 8).attr("y", base - 0).attr("text-anchor", "end").text(group.places.length.toLocaleString("en"));
    for (const bin of binned[row]) {
      if (!bin.length) continue;
      const middle = (bin.x0 + bin.x1) / 2;
      const bar = line.append("rect").attr("x", across(bin.x0) + 0.5).attr("width", Math.max(1, across(bin.x1) - across(bin.x0) - 1));
      bar.attr("y", base - up(bin.length)).attr("height", up(bin.length)).style("fill", colorOf(middle)).style("stroke", "var(--c6)");
      bar.append("title").text(`${group.name}: ${counted(bin.length, "memory", "memories")} from ${bin.x0.toFixed(3)} to ${bin.x1.toFixed(3)}`);
    }
    const cut = group.places.length && rest.every((one) => one.name !== group.name) ? cutOf(group.places[0]) : data.threshold;
    if (cut !== null) line.append("line").attr("class", "cut-line").attr("x1", across(cut)).attr("x2", across(cut)).attr("y1", base - rowTall + 8).attr("y2", base);
  });
  if (otherCut !== undefined) {
    svg.append("line").attr("class", "cut-line other").attr("x1", across(otherCut)).attr("x2", across(otherCut)).attr("y1", 2).attr("y2", groups.length * rowTall);
  }
  svg.append("g").attr("class", "axis-of").attr("transform", `translate(0,${groups.length * rowTall + 4})`).call(parts.axisBottom(across).ticks(wide < 520 ? 5 : 10).tickSize(4));
  fillSpreadTable();
}

function fillSpreadTable() {
  const body = byId("spread-body");
  if (!body || body.rows.length) return;
  byId("spread-numbers").hidden = false;
  for (const { name, places } of kindsByCount) {
    const cut = cutOf(places[0]);
    const cells = [places.length.toLocaleString("en"), cut ?? "–", places.filter(passes).length || "", places.filter((place) => keptRank.has(place)).length || "",
      scoreOf(places[places.length >> 1]).toFixed(2), scoreText(places[0])];
    const row = body.insertRow();
    const head = make("th", { textContent: name.replaceAll("_", " ") });
    head.scope = "row";
    row.append(head, ...cells.map((cell) => make("td", { textContent: String(cell) })));
  }
}

// What another cut would have kept, among equals of the same places. Shares for tests and commits are not part of it.
function sayCut(cut) {
  const would = inOrder.filter((place) => scoreOf(place) >= cut - 1e-9);
  const kept = new Set(would.slice(0, data.topK));
  const names = (places) => places.slice(0, 5).map(nameOf).join(", ") + (places.length > 5 ? ` and ${places.length - 5} more` : "");
  const fresh = [...kept].filter((place) => !keptRank.has(place));
  const gone = [...keptRank.keys()].filter((place) => !kept.has(place));
  const sentences = [`From ${cut.toFixed(2)} up, ${counted(would.length, "memory", "memories")} would pass${would.length > data.topK ? `, and the first ${data.topK} be chosen` : ""}.`];
  if (fresh.length) sentences.push(`New: ${names(fresh)}.`);
  if (gone.length) sentences.push(`Gone: ${names(gone)}.`);
  if (!fresh.length && !gone.length) sentences.push("The choice would be the same.");
  byId("cut-says").textContent = sentences.join(" ");
}

function startCut() {
  const slider = byId("cut");
  if (!slider || data.threshold === null || !inOrder.length) return;
  if (data.byWords) { slider.max = fullScore.toFixed(2); slider.step = "0.005"; }
  byId("cut-tool").hidden = false;
  slider.value = data.threshold;
  byId("cut-shown").textContent = Number(slider.value).toFixed(2);
  slider.addEventListener("input", () => {
    const cut = Number(slider.value);
    byId("cut-shown").textContent = cut.toFixed(2);
    otherCut = cut;
    drawSpread();
    sayCut(cut);
  });
}

// Calls: each in the first lane that is free when it is sent; the part of its tokens that a prefix cache held is darker.
const CALL_COLORS = { judge: "c1", primary: "c2", probe: "c5", reason: "c3", embed: "c4" };
function drawCalls() {
  const svg = parts.select("#waterfall");
  if (svg.empty()) return;
  const calls = [...data.calls].sort((a, b) => a.at - b.at);
  const lanes = [];
  for (const call of calls) {
    let lane = lanes.findIndex((free) => free <= call.at + 1e-6);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = call.at + call.took;
    call.lane = lane;
  }
  const wide = Math.max(300, Math.min(svg.node().clientWidth, 1600));
  const laneTall = Math.max(3, Math.min(16, 320 / lanes.length));
  const tall = lanes.length * laneTall + 30;
  svg.attr("viewBox", `0 0 ${wide} ${tall}`).attr("width", wide).attr("height", tall).selectAll("*").remove();
  const across = parts.scaleLinear().domain([0, Math.max(data.took, parts.max(calls, (call) => call.at + call.took))]).nice().range([8, wide - 24]);
  for (const call of calls) {
    const isFailed = call.outcome !== "ok";
    const place = svg.append("g").attr("class", isFailed ? "quiet" : CALL_COLORS[call.stage] ?? "c6");
    const long = Math.max(1.5, across(call.at + call.took) - across(call.at));
    const bar = place.append("rect").attr("x", across(call.at)).attr("y", call.lane * laneTall).attr("width", long).attr("height", Math.max(2, laneTall - 2)).attr("rx", Math.min(2, laneTall / 4));
    if (isFailed) bar.style("stroke", "var(--alert)").style("stroke-width", 2).style("stroke-dasharray", "4 2");
    if (call.cached) place.append("rect").attr("x", across(call.at)).attr("y", call.lane * laneTall).attr("width", (long * call.cached) / Math.max(1, call.input)).attr("height", Math.max(2, laneTall - 2)).style("fill", "var(--shade)");
    place.append("title").text(`${call.words}${isFailed ? ", " + call.outcome : ""}: from ${call.at.toFixed(2)} s, took ${call.took.toFixed(2)} s, ${call.input.toLocaleString("en")} tokens in (${call.cached.toLocaleString("en")} of a prefix cache), ${call.output.toLocaleString("en")} out${call.memories ? ", " + counted(call.memories, "memory", "memories") : ""}`);
  }
  svg.append("g").attr("class", "axis-of").attr("transform", `translate(0,${lanes.length * laneTall + 4})`).call(parts.axisBottom(across).ticks(wide < 520 ? 4 : 8).tickSize(4).tickFormat((s) => `${s} s`));
  const stages = new Map(calls.map((call) => [call.words, CALL_COLORS[call.stage] ?? "c6"]));
  const items = [...stages].map(([words, color]) => make("li", {}, make("span", { className: `mark ${color}` }), words));
  const failed = calls.filter((call) => call.outcome !== "ok").length;
  if (failed) items.push(make("li", {}, make("span", { className: "mark quiet failed" }), `${failed} failed, tried again`));
  if (calls.some((call) => call.cached)) items.push(make("li", {}, make("span", { className: "mark c1 shaded" }), "darker: read from the host's prefix cache"));
  byId("calls-legend").replaceChildren(...items);
}

function drawCharts() {
  drawLegend();
  drawSpread();
  drawCalls();
  for (const mark of document.querySelectorAll(".memory .score")) mark.style.setProperty("--score", colorOf(Number(mark.dataset.score)));
}
redraws.push(drawCharts);
