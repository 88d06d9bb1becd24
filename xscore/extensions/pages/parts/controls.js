// What the reader does besides the map: filters, search, light and dark; then everything is drawn for the first time.

const filters = { search: byId("search"), kind: byId("kind"), language: byId("language"), layer: byId("layer"), least: byId("least") };
const TABLE_ROWS = 100;

// Filters
function offer(select, names) {
  names.map((name, index) => ({ name, index })).filter(({ name }) => name).sort((a, b) => (a.name < b.name ? -1 : 1))
    .forEach(({ name, index }) => select.append(make("option", { value: String(index), textContent: name.replaceAll("_", " ") })));
}
offer(filters.kind, data.kindNames);
offer(filters.language, data.languageNames);
offer(filters.layer, data.layerNames);
if (data.byWords) { filters.least.max = fullScore.toFixed(2); filters.least.step = "0.005"; }

const lowered = new Array(size);
function applyFilters() {
  const words = filters.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const [kind, language, layer] = ["kind", "language", "layer"].map((name) => (filters[name].value === "" ? -1 : Number(filters[name].value)));
  const least = Number(filters.least.value);
  byId("least-shown").textContent = least ? least.toFixed(2) : "0";
  isFiltered = words.length > 0 || kind >= 0 || language >= 0 || layer >= 0 || least > 0;
  isShown = (place) => (kind < 0 || data.kinds[place] === kind)
    && (layer < 0 || data.layers[place] === layer)
    && (language < 0 || data.files[fileOf[place]][2] === language)
    && (least === 0 || (hasScore(place) && scoreOf(place) >= least))
    && words.every((word) => (lowered[place] ??= `${pathOf(place)} ${data.names[place]}`.toLowerCase()).includes(word));
  if (isFiltered) {
    const shown = new Uint8Array(size);
    for (let place = 0; place < size; place += 1) shown[place] = isShown(place) ? 1 : 0;
    isShown = (place) => shown[place] === 1;
  }
  byId("clear").hidden = !isFiltered;
  fillMatches();
  drawSoon();
}

let matching = [];
function fillMatches() {
  const scored = isFiltered ? inOrder.filter(isShown) : inOrder;
  const unscored = [];
  for (let place = 0; place < size; place += 1) if (!hasScore(place) && isShown(place)) unscored.push(place);
  const count = scored.length + unscored.length;
  matching = [...scored.slice(0, TABLE_ROWS), ...unscored].slice(0, TABLE_ROWS);
  const words = `${counted(count, "memory", "memories")}${count > TABLE_ROWS ? `, the best ${TABLE_ROWS} of them` : ""}`;
  byId("matches-count").textContent = words;
  if (isFiltered) say(words);
  if (byId("matches").open) fillMatchTable();
}
function fillMatchTable() {
  const rows = matching.map((place) => {
    const go = make("button", { type: "button", textContent: nameOf(place) });
    go.addEventListener("click", () => pick(place, { moves: true }));
    const head = make("th", {}, go);
    head.scope = "row";
    const words = [pathOf(place) ? spotOf(place) : "–", kindOf(place).replaceAll("_", " ")].map((text) => make("td", { className: "plain", textContent: text }));
    const figures = [scoreText(place) + (keptRank.has(place) ? " chosen" : ""), data.tokens[place].toLocaleString("en")].map((text) => make("td", { textContent: text }));
    return make("tr", {}, head, ...words, ...figures);
  });
  byId("matches-body").replaceChildren(...rows);
}
byId("matches").addEventListener("toggle", fillMatchTable);
let typing = 0;
for (const control of Object.values(filters)) {
  control.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(applyFilters, control === filters.search ? 120 : 0); });
}
filters.search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  clearTimeout(typing);
  applyFilters();
  if (isFiltered && matching.length) pick(matching[0], { moves: true });
});
byId("clear").addEventListener("click", () => {
  for (const control of Object.values(filters)) control.value = control === filters.least ? "0" : "";
  applyFilters();
  filters.search.focus();
});

byId("theme").addEventListener("click", redrawAll);

// A link to a chosen memory opens it.
function openLinked() {
  const linked = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (linked?.tagName === "DETAILS") openAround(linked);
}
addEventListener("hashchange", openLinked);

for (const id of ["controls", "zooms", "matches"]) byId(id).hidden = false;
redraws.push(() => { readColors(); draw(); });
readColors();
parts.select(canvas).call(zooming).on("dblclick.zoom", null);
resize();
showCrumbs();
startCut();
drawCharts();
fillMatches();
openLinked();
if (keptRank.size) showDetails([...keptRank.keys()][0]);
let settling = 0;
new ResizeObserver(() => { clearTimeout(settling); settling = setTimeout(() => { resize(); drawCharts(); }, 60); }).observe(canvas);
