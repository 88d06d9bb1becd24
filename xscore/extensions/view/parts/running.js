"use strict";
// Ask again and again how far the turn is, write it into the page, and load the page again when the turn has ended. It
// writes no markup: it only sets text and attributes.

const EVERY_MS = 1500;
const REST = 10; // Rests this many times as long as an answer took: looking on takes a tenth of a processor at most.
const MOST_FAILURES = 5;
const said = document.getElementById("said");
let failures = 0;
let saidAt = 0;

function show(live) {
  for (const name of ["judged", "candidates", "calls", "failed_attempts"]) {
    document.getElementById(name).textContent = live[name].toLocaleString("en-US");
  }
  document.getElementById("cost").textContent = live.cost;
  document.getElementById("elapsed").textContent = live.elapsed;
  const bar = document.getElementById("bar");
  bar.setAttribute("aria-valuenow", live.judged);
  bar.setAttribute("aria-valuemax", live.candidates);
  document.getElementById("fill").setAttribute("width", (1000 * live.judged) / Math.max(1, live.candidates));
  document.getElementById("best").replaceChildren(...live.best.map(row));
  // A screen reader hears of it every quarter of a minute, not at each look.
  if (Date.now() - saidAt > 15000) {
    saidAt = Date.now();
    said.textContent = live.judged + " of " + live.candidates + " judged, " + live.cost;
  }
}

function row(memory) {
  const line = document.createElement("tr");
  const score = document.createElement("th");
  score.scope = "row";
  score.textContent = memory.score.toFixed(2);
  line.append(score, cell(memory.name), cell(memory.place));
  return line;
}

function cell(text) {
  const made = document.createElement("td");
  made.className = "plain";
  made.textContent = text;
  return made;
}

async function look() {
  const began = Date.now();
  try {
    const reply = await fetch(location.pathname.replace(/\/$/, "") + "/now", { cache: "no-store" });
    if (!reply.ok) throw new Error(reply.status);
    const live = await reply.json();
    failures = 0;
    if (live.state !== "running") {
      location.reload();
      return;
    }
    show(live);
  } catch {
    failures += 1;
    if (failures >= MOST_FAILURES) {
      said.textContent = "The server no longer answers.";
      said.className = "warnings";
      return;
    }
  }
  setTimeout(look, Math.max(EVERY_MS, REST * (Date.now() - began)));
}

setTimeout(look, EVERY_MS);
