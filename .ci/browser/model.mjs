// A scripted model that speaks Anthropic's Messages: words of the last prompt say what it does.
import { createServer } from "node:http";

const ANSWER = "# Title\n\nHello **world** `code` [link](https://example.org)\n\n```rust\nfn main() {}\n```\n\n- a\n- b\n\n" +
  "| x | y |\n|---|---|\n| 1 | <img src=x onerror=alert(1)> |\n\n<script>alert(1)</script>\n";
const PAUSE_MS = 5;
const SLOW_PAUSE_MS = 500;

function wanted(message) {
  const blocks = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const text = blocks.map((block) => block.text || "").join(" ");
  return { text, isResult: blocks.some((block) => block.type === "tool_result") };
}

async function answer(body, send) {
  const { text, isResult } = wanted(body.messages.at(-1));
  const message = { id: `msg_${body.messages.length}`, type: "message", role: "assistant", model: body.model, content: [] };
  send("message_start", { message: { ...message, stop_reason: null, usage: { input_tokens: 10, output_tokens: 1 } } });
  let stop = "end_turn";
  if (text.includes("edit") && !isResult) {
    const args = JSON.stringify({ path: "a.txt", content: "one\ntwo changed\nthree\n" });
    send("content_block_start", { index: 0, content_block: { type: "tool_use", id: `toolu_${body.messages.length}`, name: "write_file", input: {} } });
    send("content_block_delta", { index: 0, delta: { type: "input_json_delta", partial_json: args } });
    stop = "tool_use";
  } else {
    const words = isResult ? "It is written." : ANSWER;
    send("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
    for (let at = 0; at < words.length; at += 8) {
      send("content_block_delta", { index: 0, delta: { type: "text_delta", text: words.slice(at, at + 8) } });
      await new Promise((done) => setTimeout(done, text.includes("slow") ? SLOW_PAUSE_MS : PAUSE_MS));
    }
  }
  send("content_block_stop", { index: 0 });
  send("message_delta", { delta: { stop_reason: stop }, usage: { output_tokens: 20 } });
  send("message_stop", {});
}

// Starts the model at a port of this machine, and gives its address and what ends it.
export function start() {
  const server = createServer((request, reply) => {
    let body = "";
    request.on("data", (piece) => { body += piece; });
    request.on("end", async () => {
      if (request.method !== "POST") return reply.end(JSON.stringify({ data: [] }));
      reply.writeHead(200, { "content-type": "text/event-stream" });
      const send = (type, data) => reply.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
      await answer(JSON.parse(body), send);
      return reply.end();
    });
  });
  return new Promise((ready) => server.listen(0, "127.0.0.1", () => {
    ready({ url: `http://127.0.0.1:${server.address().port}`, close: () => { server.close(); server.closeAllConnections(); } });
  }));
}
