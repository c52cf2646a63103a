// A server of revision 2026-07-28 on the protocol's own library: by standard input and output, or by HTTP with `http`.
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { z } from "zod";

function greeter() {
  const server = new McpServer({ name: "modern", version: "1.0.0" });
  const config = { description: "Greets", inputSchema: z.object({ name: z.string() }) };
  server.registerTool("greet", config, async ({ name }) => ({ content: [{ type: "text", text: `Hello, ${name}` }] }));
  return server;
}

if (process.argv[2] === "http") {
  const handler = createMcpHandler(greeter);
  const server = createServer(async (incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const body = method === "POST" ? Readable.toWeb(incoming) : undefined;
    const answer = await handler.fetch(new Request(`http://${headers.host}${url}`, { method, headers, body, duplex: "half" }));
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).pipe(outgoing);
    else outgoing.end();
  });
  server.listen(Number(process.env.PORT), "127.0.0.1", () => console.error(`listens at ${process.env.PORT}`));
} else {
  serveStdio(greeter);
}
