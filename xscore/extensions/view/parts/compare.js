// What the reader does besides the map: leave out small changes; then everything is drawn for the first time.

const least = byId("least");
least.addEventListener("input", () => {
  const smallest = Number(least.value);
  byId("least-shown").textContent = smallest ? smallest.toFixed(2) : "0";
  isFiltered = smallest > 0;
  isShown = (place) => !isFiltered || (isInBoth(place) && Math.abs(changeOf(place)) >= smallest - 1e-9);
  drawSoon();
});

for (const button of document.querySelectorAll("button[data-place]")) {
  button.addEventListener("click", () => {
    pick(Number(button.dataset.place), { moves: true });
    byId("map").scrollIntoView({ block: "start" });
  });
}

for (const id of ["controls", "zooms"]) byId(id).hidden = false;
redraws.push(() => { readColors(); draw(); });
readColors();
parts.select(canvas).call(zooming).on("dblclick.zoom", null);
resize();
showCrumbs();
if (inOrder.length) showDetails(inOrder[0]);
let settling = 0;
new ResizeObserver(() => { clearTimeout(settling); settling = setTimeout(resize, 60); }).observe(canvas);
