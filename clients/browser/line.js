/** A line to a gateway that can be cut: no byte passes any more, either way, and nobody is told. */
import { once } from "node:events";
import { connect, createServer } from "node:net";

export async function lineTo({ port }) {
  const sockets = new Set();
  let isCut = false;
  const server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const [socket, other] of [[near, far], [far, near]]) {
      sockets.add(socket);
      socket.on("data", (bytes) => other.write(bytes));
      socket.on("end", () => other.end());
      socket.on("error", () => other.destroy());
      socket.on("close", () => sockets.delete(socket));
      if (isCut) socket.pause();
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `ws://127.0.0.1:${server.address().port}/ws`,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.pause();
    },
    mend() {
      isCut = false;
      for (const socket of sockets) socket.resume();
    },
    end() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
