// Colors in code: Prism cuts the text into tokens, and each becomes an element with that text. It writes no markup.

const GRAMMARS = {
  shell: "bash", html: "markup", xml: "markup", svg: "markup", vue: "markup", c_sharp: "csharp", restructuredtext: "rest",
  make: "bash", dockerfile: "bash", scss: "css", less: "css",
};
const MOST_CODE = 20000;

function withTokens(tokens, into) {
  for (const token of tokens) {
    if (typeof token === "string") {
      into.append(token);
      continue;
    }
    const piece = make("span", { className: `token ${[token.type, ...[token.alias ?? []].flat()].join(" ")}` });
    withTokens([token.content].flat(), piece);
    into.append(piece);
  }
}

function colorCode(block) {
  const language = GRAMMARS[block.dataset.language] ?? block.dataset.language;
  const code = block.firstElementChild;
  if (block.dataset.colored || !parts.grammars[language] || code.textContent.length > MOST_CODE) return;
  block.dataset.colored = "yes";
  const colored = document.createElement("code");
  withTokens(parts.tokenize(code.textContent, language), colored);
  code.replaceWith(colored);
}

// Only what is looked at is cut into tokens.
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    colorCode(entry.target);
  }
}, { rootMargin: "300px" });
for (const block of document.querySelectorAll("pre.code[data-language]")) seen.observe(block);

// The answer names the language of a block in its class.
for (const code of document.querySelectorAll(".answer pre > code[class^=language-]")) {
  const block = code.parentElement;
  block.dataset.language = code.className.replace("language-", "");
  block.tabIndex = 0;
  seen.observe(block);
}
