// The one ramp of scores, of even lightness: faint where nothing fits, strong where it does; the cut lies at the same place
// of it for a judge whose scores fill 0..1 and for words, whose scores are small. In the dark it runs the other way.
const CUT_AT = 0.62;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
}

// The dark end of the ramp is left out: on a light page it would be black, on a dark one it would not be seen. The faint
// end of the light one is whitened, so that a repository in which little fits is calm to look at.
function rampColor(at, dark) {
  if (dark) return parts.rgb(parts.interpolateMagma(0.1 + 0.86 * at));
  const color = parts.rgb(parts.interpolateMagma(0.985 - 0.8 * at));
  const whitened = 0.6 * Math.max(0, 1 - 3 * at);
  const mixed = [color.r, color.g, color.b].map((part) => part + (255 - part) * whitened);
  return parts.rgb(...mixed);
}
