/** Prints what an application pays: each entry point bundled, minified and compressed. */
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const external = ["@msgpack/msgpack", "react"];
/** What `index` has already, for those that come beside it. */
const beside = [...external, "./index.js", "./options.js", "./surroundings.js"];

for (const entry of ["index", "react", "tabs", "msgpack"]) {
  const { outputFiles } = await build({
    entryPoints: [`dist/${entry}.js`],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
    external: entry === "react" || entry === "tabs" ? beside : external,
  });
  const { contents } = outputFiles[0];
  const gzipped = gzipSync(contents, { level: 9 }).length;
  console.log(`${entry.padEnd(8)} ${contents.length} bytes minified, ${gzipped} gzipped`);
}
