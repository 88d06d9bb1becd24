// The map: folders, files and memories as a treemap on a canvas. d3 lays it out and zooms; this draws what is in view.
// Trade-off: a canvas has no elements, so keys, a spoken line and tables replace what a screen reader would find.

const canvas = byId("canvas");
const context = canvas.getContext("2d");
const FOLDER_STRIP = 17, NAMED_STRIP = 13, BARE_STRIP = 2;
const SMALLEST = 10, SMALLEST_MOVING = 60; // square pixels, below which a file or folder is one rectangle
const LEAST_MARK = 7; // pixels, below which a chosen memory gets a ring around it

// Folders that only hold one folder are one: `src/werkzeug`.
function buildTree() {
  const root = { name: "all", children: [], folders: new Map() };
  const outside = new Map();
  data.files.forEach(([path, members], file) => {
    const first = starts[file];
    const leaves = Array.from({ length: members }, (_, index) => ({ place: first + index }));
    if (!path) {
      for (const leaf of leaves) {
        const kind = kindOf(leaf.place);
        if (!outside.has(kind)) outside.set(kind, []);
        outside.get(kind).push({ ...leaf, isOutside: true });
      }
      return;
    }
    const names = path.split("/");
    const name = names.pop();
    let folder = root;
    for (const part of names) {
      if (!folder.folders.has(part)) {
        const made = { name: part, children: [], folders: new Map() };
        folder.folders.set(part, made);
        folder.children.push(made);
      }
      folder = folder.folders.get(part);
    }
    folder.children.push({ name, file, children: leaves });
  });
  for (const [kind, leaves] of outside) root.children.push({ name: `${kind} (in no file)`, children: leaves });
  for (const child of root.children) joinSingles(child);
  return root;
}

function joinSingles(node) {
  while (node.folders && node.children.length === 1 && node.children[0].folders) {
    const [only] = node.children;
    node.name += "/" + only.name;
    node.children = only.children;
    node.folders = only.folders;
  }
  for (const child of node.children ?? []) if (child.folders) joinSingles(child);
}

const starts = new Int32Array(data.files.length);
for (let file = 1; file < data.files.length; file += 1) starts[file] = starts[file - 1] + data.files[file - 1][1];

// Commits and past answers would drown the code of an old repository: together they take at most this share of the map.
const MOST_OUTSIDE_FILES = 0.125;
const areaOf = (place) => Math.max(8, data.tokens[place]);
function shrinkOutside() {
  let inFiles = 0, outside = 0;
  data.files.forEach(([path, members], file) => {
    for (let place = starts[file]; place < starts[file] + members; place += 1) {
      if (path) inFiles += areaOf(place);
      else outside += areaOf(place);
    }
  });
  if (!inFiles || !outside) return 1;
  return Math.min(1, (MOST_OUTSIDE_FILES / (1 - MOST_OUTSIDE_FILES)) * (inFiles / outside));
}
const outsideScale = shrinkOutside();

const tree = parts.hierarchy(buildTree())
  .sum((node) => (node.place === undefined ? 0 : areaOf(node.place) * (node.isOutside ? outsideScale : 1)))
  .sort((a, b) => b.value - a.value);
const leafOf = new Array(size);
tree.eachAfter((node) => {
  const { place } = node.data;
  if (place !== undefined) {
    leafOf[place] = node;
    node.best = shades[place];
  } else {
    node.best = node.children.reduce((best, child) => (strengthOf(child.best) > strengthOf(best) ? child.best : best), -1);
  }
});

let width = 0, height = 0;
let view = parts.zoomIdentity;
let colors = {};
let hatch = null;
let isMoving = false;
let hovered = null, picked = null;
let isShown = () => true; // what the filters let through
let isFiltered = false;

// Room for a name above what a folder or file holds, where there is room; d3 asks once the node itself has its place.
function strip(node) {
  if (node.depth === 0) return 0;
  const isRoomy = node.x1 - node.x0 > 52 && node.y1 - node.y0 > 44;
  if (!isRoomy) return BARE_STRIP;
  return node.depth === 1 ? FOLDER_STRIP : NAMED_STRIP;
}
// Room around what a node holds: none around the whole map, little around what a file holds.
function gap(node, ofRoot, ofFile, ofFolder) {
  if (node.depth === 0) return ofRoot;
  return node.data.file === undefined ? ofFolder : ofFile;
}
const layout = parts.treemap().tile(parts.treemapSquarify.ratio(1.3))
  .paddingOuter((node) => gap(node, 0, 0.6, 1.5))
  .paddingTop(strip)
  .paddingInner((node) => gap(node, 4, 0.4, 1.5));

function readColors() {
  const names = ["map", "folder", "folder-ink", "dim", "kept", "near", "hatch", "ink", "focus"];
  colors = Object.fromEntries(names.map((name) => [name, styleColor(`--${name}`)]));
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  brush.fillStyle = colors.folder;
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = colors.hatch;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const from of [-6, 0, 6]) { brush.moveTo(from, 6); brush.lineTo(from + 6, 0); }
  brush.stroke();
  hatch = context.createPattern(tile, "repeat");
}

function resize() {
  const box = canvas.getBoundingClientRect();
  if (!box.width || (box.width === width && box.height === height)) return;
  width = box.width;
  height = box.height;
  const dense = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  layout.size([width, height])(tree);
  zooming.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
  parts.select(canvas).call(zooming.transform, parts.zoomIdentity);
  draw();
}

// Drawing: what is out of view is left out with all that it holds; what is a few pixels is drawn as one.
function draw() {
  const dense = canvas.width / width;
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.fillStyle = colors.map;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.direction = "ltr";
  drawNode(tree, wholeView());
  drawMarks();
}

// A zoom makes the strip of a folder taller than its name needs: what the folder holds then moves up and takes the room. So
// each folder has its own map from heights of the layout to heights of the screen: height × scale + shift.
const TALLEST_STRIP = 20;
const wholeView = () => ({ scale: view.k, shift: view.y });
function rowsInside(node, rows) {
  const room = strip(node);
  if (room * rows.scale <= TALLEST_STRIP) return rows;
  const scale = ((node.y1 - node.y0) * rows.scale - TALLEST_STRIP) / (node.y1 - node.y0 - room);
  return { scale, shift: node.y0 * rows.scale + rows.shift + TALLEST_STRIP - (node.y0 + room) * scale };
}

function rowsOf(node, rows) {
  return node.parent ? rowsInside(node.parent, rowsOf(node.parent, rows)) : rows;
}

function boxOf(node) {
  const rows = rowsOf(node, wholeView());
  return [node.x0 * view.k + view.x, node.y0 * rows.scale + rows.shift, (node.x1 - node.x0) * view.k, (node.y1 - node.y0) * rows.scale];
}

function drawNode(node, rows) {
  const left = node.x0 * view.k + view.x, top = node.y0 * rows.scale + rows.shift;
  const wide = (node.x1 - node.x0) * view.k, tall = (node.y1 - node.y0) * rows.scale;
  if (left > width || top > height || left + wide < 0 || top + tall < 0) return;
  if (!node.children) {
    drawLeaf(node.data.place, left, top, wide, tall);
    return;
  }
  if (node.depth && wide * tall < (isMoving ? SMALLEST_MOVING : SMALLEST) && !isFiltered) {
    context.fillStyle = node.best < 0 ? colors.hatch : fillOf(node.best);
    context.fillRect(left, top, Math.max(wide, 0.6), Math.max(tall, 0.6));
    return;
  }
  if (node.depth) {
    context.fillStyle = colors.folder;
    context.fillRect(left, top, wide, tall);
    const room = Math.min(strip(node) * rows.scale, TALLEST_STRIP);
    if (room >= 11 && wide > 34) drawHeader(node, left, top, wide, Math.min(room, tall));
  }
  const inside = rowsInside(node, rows);
  for (const child of node.children) drawNode(child, inside);
}

function drawLeaf(place, left, top, wide, tall) {
  const shade = shades[place];
  const isIn = !isFiltered || isShown(place);
  if (!isIn) context.fillStyle = colors.dim;
  else context.fillStyle = shade < 0 ? hatch : fillOf(shade);
  context.fillRect(left, top, wide, tall);
  if (isIn && wide > 46 && tall > 15) drawName(place, left, top, wide, tall);
}

// The font of a system is as wide as it is: what fits is measured in the font that is set.
const NARROWEST_LETTER = 2.5, FEWEST_LETTERS = 3;
function fitted(text, room) {
  let letters = Math.max(0, Math.ceil(room / NARROWEST_LETTER));
  if (text.length <= letters && context.measureText(text).width <= room) return text;
  letters = Math.min(letters, text.length - 1);
  while (letters >= FEWEST_LETTERS && context.measureText(text.slice(0, letters) + "…").width > room) letters -= 1;
  return letters < FEWEST_LETTERS ? "" : text.slice(0, letters) + "…";
}

function drawHeader(node, left, top, wide, room) {
  const from = Math.max(left, 0);
  const isFile = node.data.file !== undefined;
  const size = Math.min(12, room - 3);
  context.font = `${isFile ? 400 : 600} ${size}px system-ui, sans-serif`;
  context.fillStyle = colors["folder-ink"];
  context.fillText(fitted(node.data.name, left + wide - from - 8), from + 4, top + Math.min(room, 18) / 2 + 0.5);
}

function drawName(place, left, top, wide, tall) {
  const isLight = shades[place] < 0 ? !isDark() : isLightOn(shades[place]);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = isLight ? "#14181f" : "#f6f7f9";
  const text = fitted(nameOf(place), wide - 8);
  if (text) context.fillText(text, left + 4, top + Math.min(tall / 2, 10));
  if (tall > 34 && wide > 70) {
    context.globalAlpha = 0.75;
    context.fillText(figureOf(place), left + 4, top + 24);
    context.globalAlpha = 1;
  }
}

// Above all else: what passed, what was chosen, what is looked at.
function drawMarks() {
  for (const place of passedOver) outline(place, colors.near, 1.2, [3, 2]);
  for (const place of keptRank.keys()) outline(place, colors.kept, 2.4, []);
  if (hovered !== null) outline(hovered, colors.ink, 1.5, []);
  if (picked !== null) outline(picked, colors.focus, 3.5, []);
}

function outline(place, color, thickness, dashes) {
  if (isFiltered && !isShown(place)) return;
  let [left, top, wide, tall] = boxOf(leafOf[place]);
  if (left > width || top > height || left + wide < 0 || top + tall < 0) return;
  context.strokeStyle = color;
  context.lineWidth = thickness;
  context.setLineDash(dashes);
  context.beginPath();
  if (wide < LEAST_MARK && tall < LEAST_MARK && !dashes.length) {
    context.arc(left + wide / 2, top + tall / 2, LEAST_MARK * 0.8, 0, 2 * Math.PI);
  } else {
    const inset = Math.min(thickness / 2, wide / 2, tall / 2);
    context.rect(left + inset, top + inset, wide - 2 * inset, tall - 2 * inset);
  }
  context.stroke();
  context.setLineDash([]);
}

// One drawing a frame, however many events.
let isPending = false;
function drawSoon() {
  if (isPending) return;
  isPending = true;
  requestAnimationFrame(() => { isPending = false; draw(); });
}

// Where the pointer is: down from the root to the child that holds the point.
function nodeAt(x, y) {
  const atX = view.invertX(x);
  let node = tree;
  let rows = wholeView();
  for (;;) {
    const atY = (y - rows.shift) / rows.scale;
    const inside = node.children?.find((child) => atX >= child.x0 && atX < child.x1 && atY >= child.y0 && atY < child.y1);
    if (!inside) return node;
    if (inside.children) rows = rowsInside(inside, rows);
    node = inside;
  }
}

let hasFocus = false;
const zooming = parts.zoom().scaleExtent([1, 4000])
  // The page scrolls by the wheel and by one finger; the map zooms once it was clicked, by Ctrl, or by two fingers.
  .filter((event) => {
    if (event.type === "wheel") {
      const may = event.ctrlKey || event.metaKey || hasFocus;
      if (!may) hintAtWheel();
      return may;
    }
    if (event.type.startsWith("touch")) return event.touches.length > 1 || view.k > 1;
    return !event.button && event.type !== "dblclick";
  })
  .on("start", () => { isMoving = true; })
  .on("end", () => { isMoving = false; drawSoon(); })
  .on("zoom", (event) => { view = event.transform; canvas.style.touchAction = view.k > 1 ? "none" : "pan-y"; hideTip(); showCrumbs(); drawSoon(); });

function moveTo(transform, isSlow = true) {
  const selection = parts.select(canvas);
  (isSlow && !isCalm ? selection.transition().duration(420) : selection).call(zooming.transform, transform);
}

// Bring a folder, a file or a memory into view, with a margin around it.
function enter(node, { share = 1 } = {}) {
  if (node === tree) return moveTo(parts.zoomIdentity);
  let k = Math.max(1, Math.min(4000, share * Math.min(width / (node.x1 - node.x0), height / (node.y1 - node.y0))));
  let rows = rowsOf(node, { scale: k, shift: 0 });
  // What strips give up makes the node taller than the zoom alone does.
  for (let tries = 0; tries < 4 && k > 1 && (node.y1 - node.y0) * rows.scale > share * height; tries += 1) {
    k = Math.max(1, (k * share * height) / ((node.y1 - node.y0) * rows.scale));
    rows = rowsOf(node, { scale: k, shift: 0 });
  }
  const x = width / 2 - (k * (node.x0 + node.x1)) / 2;
  const y = height / 2 - ((node.y0 + node.y1) * rows.scale) / 2 - rows.shift;
  const kept = (at, room) => Math.min(0, Math.max(at, room * (1 - k)));
  return moveTo(parts.zoomIdentity.translate(kept(x, width), kept(y, height)).scale(k));
}

// The deepest folder or file that fills the view.
function focusNode() {
  const [left, right, top, bottom] = [width * 0.12, width * 0.88, height * 0.12, height * 0.88];
  let node = tree;
  let rows = wholeView();
  const fills = (child) => child.children
    && child.x0 * view.k + view.x <= left && child.x1 * view.k + view.x >= right
    && child.y0 * rows.scale + rows.shift <= top && child.y1 * rows.scale + rows.shift >= bottom;
  for (;;) {
    const inside = node.children?.find(fills);
    if (!inside) return node;
    rows = rowsInside(inside, rows);
    node = inside;
  }
}

let crumbsOf = null;
function showCrumbs() {
  const node = focusNode();
  if (node === crumbsOf) return;
  crumbsOf = node;
  const buttons = node.ancestors().reverse().flatMap((folder, index) => {
    const go = make("button", { type: "button", textContent: folder.depth ? folder.data.name : "Everything" });
    if (folder === node) go.setAttribute("aria-current", "true");
    go.addEventListener("click", () => enter(folder));
    return index ? [document.createTextNode("/"), go] : [go];
  });
  byId("crumbs").replaceChildren(...buttons);
}

function pick(place, { moves = false } = {}) {
  picked = place;
  const leaf = leafOf[place];
  showDetails(place);
  if (moves) enter(leaf.parent.depth ? leaf.parent : leaf, { share: 0.9 });
  say([nameOf(place), spotOf(place), `score ${figureOf(place)}`, stateOf(place)].filter(Boolean).join(", "));
  drawSoon();
}
