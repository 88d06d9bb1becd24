// What the reader does on the map: pointing, keys, zoom.

const tip = byId("tip");

// Pointing
function showTip(place, x, y) {
  const lines = [make("b", { textContent: nameOf(place) }), make("code", { textContent: spotOf(place) })];
  lines.push(make("p", { textContent: [`${figureOf(place)} ${kindOf(place)}`, stateOf(place)].filter(Boolean).join(", ") }));
  if (data.reasons[place]) lines.push(make("p", { textContent: data.reasons[place] }));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, width - box.width - 4))}px`;
  tip.style.top = `${y + 18 + box.height > height ? Math.max(4, y - box.height - 10) : y + 18}px`;
}
function hideTip() {
  tip.hidden = true;
  if (hovered !== null) { hovered = null; drawSoon(); }
}

canvas.addEventListener("pointermove", (event) => {
  if (event.buttons || event.pointerType === "touch") return;
  const node = nodeAt(event.offsetX, event.offsetY);
  const place = node.data.place ?? null;
  canvas.style.cursor = place === null ? "zoom-in" : "pointer";
  if (place === null) return hideTip();
  showTip(place, event.offsetX, event.offsetY);
  if (place !== hovered) { hovered = place; drawSoon(); }
});
canvas.addEventListener("pointerleave", hideTip);
canvas.addEventListener("click", (event) => {
  const node = nodeAt(event.offsetX, event.offsetY);
  cursor = node;
  if (node.data.place !== undefined) {
    pick(node.data.place);
    // A finger does not hover, and on a narrow page the details are below the map, perhaps out of sight.
    const isOutOfSight = panel.getBoundingClientRect().top > innerHeight - 60;
    if (event.pointerType === "touch" || isOutOfSight) showTip(node.data.place, event.offsetX, event.offsetY);
    if (isOutOfSight) tip.append(make("p", { textContent: "↓ More about it below the map" }));
  } else if (node !== tree) enter(node === focusNode() ? node.parent : node);
});
canvas.addEventListener("dblclick", (event) => {
  const node = nodeAt(event.offsetX, event.offsetY);
  enter(node.children ? node : node.parent);
});
canvas.addEventListener("focus", () => { hasFocus = true; });
canvas.addEventListener("blur", () => { hasFocus = false; });

let hintTimer = 0;
function hintAtWheel() {
  const hint = byId("wheel-hint");
  hint.hidden = false;
  clearTimeout(hintTimer);
  hintTimer = setTimeout(() => { hint.hidden = true; }, 1400);
}

// Keys: a place in the tree that the arrows move, best first among its siblings.
let cursor = tree;
const best = (node) => [...node.children].sort((a, b) => strengthOf(b.best) - strengthOf(a.best) || b.value - a.value);
function moveCursor(node) {
  cursor = node;
  if (node.data.place !== undefined) {
    pick(node.data.place);
    const [left, top, wide, tall] = boxOf(node);
    if (left < 0 || top < 0 || left + wide > width || top + tall > height || wide < 14) enter(node.parent);
    return;
  }
  enter(node);
  say(`${node.depth ? node.data.name : "Everything"}: ${counted(node.leaves().length, "memory", "memories")}, ${shadeWords(node.best)}`);
}
const steps = {
  ArrowDown: () => (cursor.children ? best(cursor)[0] : neighbour(1)),
  ArrowUp: () => cursor.parent,
  ArrowRight: () => neighbour(1),
  ArrowLeft: () => neighbour(-1),
  Enter: () => (cursor.children ? best(cursor)[0] : null),
  Escape: () => cursor.parent ?? tree,
};
function neighbour(step) {
  if (!cursor.parent) return best(tree)[0];
  const siblings = best(cursor.parent);
  return siblings[(siblings.indexOf(cursor) + step + siblings.length) % siblings.length];
}
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") zoomBy(1.6);
  else if (event.key === "-") zoomBy(1 / 1.6);
  else if (event.key === "Enter" && cursor.data.place !== undefined) panel.focus();
  else if (steps[event.key]) {
    const next = steps[event.key]();
    if (next) moveCursor(next);
  } else return;
  event.preventDefault();
});

function zoomBy(factor) { parts.select(canvas).transition().duration(isCalm ? 0 : 200).call(zooming.scaleBy, factor); }
byId("zoom-in").addEventListener("click", () => zoomBy(1.6));
byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
byId("zoom-all").addEventListener("click", () => { cursor = tree; enter(tree); });
