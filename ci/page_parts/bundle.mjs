// Bundles what pages are drawn with into the package, next to its licences and checksums: `drawing.js` for the page of a
// turn, `plotting.js` for a report. Run it by `make page-parts`: npm installs the versions and checksums of
// package-lock.json first.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));

await bundle("drawing", "../../xscore/extensions/pages/vendor");
await bundle("plotting", "../../xscore/cost_reports/vendor");

async function bundle(name, folder) {
  const vendor = join(here, folder);
  const made = await build({
    absWorkingDir: here,
    entryPoints: [`${name}.js`],
    bundle: true,
    charset: "ascii",
    define: { global: "window" },
    format: "iife",
    globalName: "parts",
    legalComments: "none",
    metafile: true,
    minify: true,
    target: "es2022",
    write: false,
  });
  // Nothing in it may end the element that it is in.
  const script = made.outputFiles[0].text.replaceAll("</script", "<\\/script").trimEnd() + "\n";
  const { packages, licences } = packagesOf(made.metafile);
  mkdirSync(vendor, { recursive: true });
  const sha256 = createHash("sha256").update(script).digest("hex");
  const manifest = { file: `${name}.js`, bytes: Buffer.byteLength(script), sha256, packages };
  writeFileSync(join(vendor, `${name}.js`), script);
  writeFileSync(join(vendor, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
  writeFileSync(join(vendor, `${name}.json`), JSON.stringify(manifest, null, 2) + "\n");
  console.log(`${name}: ${manifest.bytes} bytes of ${packages.length} packages, sha256 ${sha256}`);
}

function packagesOf(metafile) {
  const names = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const inside = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (inside) names.add(inside[1]);
  }
  const packages = [];
  const licences = [];
  for (const name of [...names].sort()) {
    const locked = lock.packages[`node_modules/${name}`];
    packages.push({ name, version: locked.version, licence: locked.license, integrity: locked.integrity });
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"]
      .map((candidate) => join(here, "node_modules", name, candidate))
      .find(existsSync);
    licences.push(`${name} ${locked.version}\n\n${readFileSync(file, "utf8").trim()}\n`);
  }
  return { packages, licences };
}
