// A model that does what a prompt says: a fake Messages API on 127.0.0.1.
import { createServer } from "node:http";

const events = (blocks, stop) => {
  const all = [["message_start", { message: { id: "m", type: "message", role: "assistant", model: "x", content: [],
    stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } }]];
  blocks.forEach((block, index) => {
    const [begin, delta] = {
      text: [{ type: "text", text: "" }, { type: "text_delta", text: block.text }],
      thinking: [{ type: "thinking", thinking: "", signature: "" }, { type: "thinking_delta", thinking: block.text }],
      tool: [{ type: "tool_use", id: `call-${Date.now()}-${index}`, name: block.name, input: {} },
        { type: "input_json_delta", partial_json: JSON.stringify(block.input) }],
    }[block.kind];
    all.push(["content_block_start", { index, content_block: begin }]);
    all.push(["content_block_delta", { index, delta }]);
    all.push(["content_block_stop", { index }]);
  });
  all.push(["message_delta", { delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 10 } }]);
  all.push(["message_stop", {}]);
  return all.map(([type, data]) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`).join("");
};

// The last text of the person, what was called since, and everything that was said before.
const asked = (messages) => {
  let text = "";
  let results = [];
  for (const message of messages) {
    const parts = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    for (const part of parts) {
      if (message.role === "user" && part.type === "tool_result") results.push(JSON.stringify(part.content));
      if (message.role === "user" && part.type === "text" && part.text.startsWith("do:")) {
        text = part.text.trim();
        results = [];
      }
    }
  }
  return { text, results, before: JSON.stringify(messages) };
};

const call = (name, input) => [{ kind: "tool", name, input }];

const answer = (messages) => {
  const { text, results, before } = asked(messages);
  const [, verb, ...words] = text.split(" ");
  const rest = words.join(" ");
  // A server takes a moment to start.
  if (verb === "use" && results.length === 0) return call("shell", { command: "sleep 3" });
  if (verb === "use" && results.length === 1) return call(words[0], JSON.parse(words.slice(1).join(" ")));
  if (results.length > 0) return [{ kind: "text", text: `ended: ${results.at(-1)}` }];
  switch (verb) {
    case "say": return [{ kind: "text", text: rest }];
    case "think": return [{ kind: "thinking", text: "Let me think." }, { kind: "text", text: rest }];
    case "write": return call("write_file", { path: words[0], content: `${words.slice(1).join(" ")}\n` });
    case "read": return call("read_file", { path: rest });
    case "run": return call("shell", { command: rest });
    case "plan": return call("todo_write", { todos: [{ content: "look", status: "in_progress" }] });
    case "recall": return [{ kind: "text", text: before.includes(rest) ? "it was said" : "it was not said" }];
    default: return [{ kind: "text", text: `nothing to do of ${text}` }];
  }
};

export const startModel = async () => {
  let slow = 0;
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => { body += piece; });
    request.on("end", () => {
      if (request.method !== "POST" || !request.url.startsWith("/v1/messages") || request.url.includes("count")) {
        response.writeHead(404, { "content-type": "application/json" });
        response.end(JSON.stringify({ type: "error", error: { type: "not_found_error", message: "no" } }));
        return;
      }
      const { messages } = JSON.parse(body);
      const { text } = asked(messages);
      if (text.startsWith("do: fail")) {
        response.writeHead(400, { "content-type": "application/json" });
        response.end(JSON.stringify({ type: "error", error: { type: "invalid_request_error", message: "no such thing" } }));
        return;
      }
      if (text.startsWith("do: slow")) slow += 1;
      response.writeHead(200, { "content-type": "text/event-stream" });
      const blocks = answer(messages);
      const all = events(blocks, blocks.some((block) => block.kind === "tool") ? "tool_use" : "end_turn");
      // A slow one begins, and never ends.
      response[text.startsWith("do: slow") ? "write" : "end"](text.startsWith("do: slow") ? all.split("\n\n").slice(0, 3).join("\n\n") + "\n\n" : all);
    });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    slow: () => slow,
    close: () => { server.closeAllConnections(); server.close(); },
  };
};
