// A server of revision 2026-07-28 on the protocol's own library.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

serveStdio(() => {
  const server = new McpServer({ name: "modern", version: "1.0.0" });
  const config = { description: "Greets", inputSchema: z.object({ name: z.string() }) };
  server.registerTool("greet", config, async ({ name }) => ({ content: [{ type: "text", text: `Hello, ${name}` }] }));
  return server;
});
