"use strict";
// Sort a column, expand and collapse turns, also for links and printing. It writes no
// markup: it only sets text, attributes and the order of rows.

const said = document.getElementById("said");

// The rest of a long table waits in a template until somebody wants it.
function showAll(table) {
  const rest = table.parentElement.querySelector("template");
  if (!rest) return;
  table.tBodies[0].append(...rest.content.querySelectorAll("tr"));
  rest.remove();
  table.parentElement.nextElementSibling.remove();
}
const longTables = Array.from(document.querySelectorAll("template"), (rest) => rest.parentElement.querySelector("table"));
for (const table of longTables) {
  const button = table.parentElement.nextElementSibling.querySelector("button");
  button.hidden = false;
  button.addEventListener("click", () => {
    const shown = table.tBodies[0].rows.length;
    showAll(table);
    said.textContent = table.tBodies[0].rows.length.toLocaleString("en") + " rows";
    // The button is gone: go on where the new rows begin.
    const head = table.tBodies[0].rows[shown].cells[0];
    head.tabIndex = -1;
    head.focus();
  });
}

// Sorting: by figures before words, stable, in place; `1.2k` is 1200.
const UNITS = { k: 1e3, M: 1e6, G: 1e9 };
function valueOf(cell) {
  const written = cell.textContent.trim();
  const found = /^~?\$?([\d.,]+)([kMG]?)(\+\?)?$/.exec(written);
  return found ? Number(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1) : written;
}

function before(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one === "number") return 1;
  if (typeof other === "number") return -1;
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function sort(table, head, column) {
  showAll(table);
  const falls = head.ariaSort ? head.ariaSort === "ascending" : !head.classList.contains("plain");
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, value: valueOf(row.cells[column]) }));
  rows.sort((a, b) => (falls ? before(b.value, a.value) : before(a.value, b.value)));
  body.append(...rows.map((each) => each.row));
  said.textContent = "Sorted by " + head.textContent + ", " + head.getAttribute("aria-sort");
}

for (const table of document.querySelectorAll("table.sortable")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(table, head, column));
  });
}

// Expand or collapse all turns; open the one that a link leads to; expand all for printing, then restore them.
const turns = Array.from(document.querySelectorAll("details.turn, details.more"));
const fold = document.getElementById("fold");
const allOpen = () => turns.every((turn) => turn.open);
fold.hidden = turns.length === 0;
fold.addEventListener("click", () => {
  const open = !allOpen();
  for (const turn of turns) turn.open = open;
});
for (const turn of turns) {
  turn.addEventListener("toggle", () => {
    fold.textContent = allOpen() ? "Collapse all turns" : "Expand all turns";
  });
}

function openLinked() {
  const linked = document.getElementById(location.hash.slice(1));
  const turn = linked && linked.closest("details");
  if (!turn) return;
  for (let each = turn; each; each = each.parentElement.closest("details")) each.open = true;
  turn.querySelector("summary").focus({ preventScroll: true });
  turn.scrollIntoView();
}
addEventListener("hashchange", openLinked);
openLinked();

let folded = [];
addEventListener("beforeprint", () => {
  longTables.forEach(showAll);
  folded = turns.filter((turn) => !turn.open);
  for (const turn of folded) turn.open = true;
});
addEventListener("afterprint", () => {
  for (const turn of folded) turn.open = false;
});
