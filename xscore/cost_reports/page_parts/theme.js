// Light or dark until the page is closed; nothing is stored. What is drawn in colors listens for the same click, after this.
const theme = document.getElementById("theme");
const themes = ["automatic", "light", "dark"];
theme.hidden = false;
theme.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "automatic";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  if (next === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.textContent = "Theme: " + next;
});
