/** A web site whose pages use the npm package, as it was built. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = { ".html": "text/html", ".js": "text/javascript" };
const FOLDERS = { client: new URL("../typescript/dist/", import.meta.url), pages: new URL("pages/", import.meta.url) };

export async function site() {
  const server = createServer(async (request, response) => {
    const [, folder, file] = /^\/(client|pages)\/([a-z-]+\.(?:html|js))$/.exec(request.url) ?? [];
    if (!folder) return response.writeHead(404).end();
    const body = await readFile(fileURLToPath(new URL(file, FOLDERS[folder])));
    response.writeHead(200, { "content-type": `${TYPES[extname(file)]}; charset=utf-8` }).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    app: `${origin}/pages/app.html`,
    elsewhere: `${origin}/pages/elsewhere.html`,
    end: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
