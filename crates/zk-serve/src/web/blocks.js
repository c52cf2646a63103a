// Blocks of a conversation as elements.
const STATES = {
  writing: ["…", "is being written", "dim"], waiting: ["…", "waits", "dim"], running: ["▶", "runs", "dim"],
  done: ["✓", "done", "good"], failed: ["✗", "failed", "bad"], refused: ["⊘", "refused", "warn"],
  skipped: ["–", "not run", "dim"], parked: ["–", "waits for somebody", "warn"], invalid: ["✗", "invalid arguments", "bad"],
  unknown: ["✗", "no such tool", "bad"], outcome_unknown: ["?", "outcome unknown", "warn"], not_run: ["–", "not run", "dim"],
};

const ENDS = {
  max_tokens: "cut by the output limit", window_full: "cut: the context window was full", empty: "the model said nothing",
  refused: "the model refused to answer", stopped: "stopped", broken: "broke off", sent_again: "broken off, sent again",
};

function seconds(ms) {
  return ms >= 60000 ? `${Math.floor(ms / 60000)} min ${Math.round(ms / 1000) % 60} s` : `${(ms / 1000).toFixed(1)} s`;
}

function diffLines(lines) {
  const element = make("code", { class: "diff" });
  for (const line of lines) {
    const kind = /^(\+\+\+|---|diff |index )/.test(line) ? "dim" : line.startsWith("@@") ? "hunk"
      : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    element.append(make("span", { class: kind }, line || " "));
  }
  return element;
}

function bodyElement(body, lines) {
  const shown = lines || body.lines;
  switch (body.form.form) {
    case "diff": return make("pre", { tabindex: "0" }, diffLines(shown));
    case "markdown": return markdown(shown.join("\n"), make("div", { class: "answer" }));
    case "table": {
      const row = (line, tag) => make("tr", {}, ...line.split(" | ").map((cell) => make(tag, {}, cell)));
      const [head, ...rest] = shown;
      return make("table", { tabindex: "0" }, make("thead", {}, row(head || "", "th")),
        make("tbody", {}, ...rest.map((line) => row(line, "td"))));
    }
    default: return make("pre", { tabindex: "0" }, make("code", {}, shown.join("\n")));
  }
}

// Outcome of a call in a few words, for its own row.
function outcome(call) {
  const [sign, words, look] = STATES[call.state] || ["·", call.state, "dim"];
  const form = call.body && call.body.form;
  let extra = "";
  if (form && form.form === "diff") extra = ` +${form.added} −${form.removed}`;
  else if (form && form.form === "command" && form.exit.how === "code" && form.exit.code !== 0) extra = ` exit code ${form.exit.code}`;
  const time = call.elapsed_ms >= 1000 ? ` · ${seconds(call.elapsed_ms)}` : "";
  return make("span", { class: look }, make("span", { "aria-hidden": "true" }, ` ${sign} `),
    make("span", {}, words + extra), time);
}

function callElement(block, expand) {
  const call = block.content;
  const { body } = call;
  const more = make("div", { class: "body" });
  if (call.argument) more.append(make("pre", { tabindex: "0" }, make("code", {}, call.argument)));
  if (call.reason) more.append(make("p", { class: "warn" }, call.reason));
  for (const remark of call.remarks || []) more.append(make("p", { class: "dim" }, remark));
  if (call.progress) more.append(make("pre", {}, make("code", {}, call.progress)));
  if (body) {
    more.append(bodyElement(body, block.lines));
    if (body.expandable && !block.lines) {
      more.append(make("button", { type: "button", onclick: () => expand(block.id) }, `All ${body.total_lines} lines`));
    }
  }
  const opens = call.state === "running" || (body && body.form.form === "diff");
  return make("details", { class: "call", open: opens && more.childNodes.length > 0 },
    make("summary", {}, make("span", { class: "mono" }, call.summary), outcome(call)), more);
}

function endElement(end) {
  const parts = [`${end.turns} turn${end.turns === 1 ? "" : "s"}`, `${end.tokens_read} tokens read`,
    `${end.tokens_written} written`];
  if (end.cost !== undefined && end.cost !== null) parts.push(`${end.cost_is_partial ? "≥ " : ""}$${end.cost.toFixed(4)}`);
  parts.push(seconds(end.duration_ms));
  return make("p", { class: "end" }, end.error ? make("span", { class: "bad" }, `${end.error} · `) : "", parts.join(" · "));
}

function blockElement(block, expand) {
  const content = block.content;
  const element = (() => {
    switch (content.type) {
      case "user": {
        const with_ = content.attachments ? ` (${content.attachments} attached)` : "";
        return make("div", { class: "user" }, make("span", { class: "hidden-text" }, "You: "), content.text + with_);
      }
      case "injected": return make("div", { class: "injected" }, `${content.by}: ${content.text}`);
      case "thinking":
        return content.text ? make("details", { class: "thinking" }, make("summary", {}, "Thinking"), make("div", {}, content.text)) : null;
      case "answer": {
        const remark = ENDS[content.end && content.end.end];
        return make("div", { class: "answer" }, ...markdown(content.text, make("div", {})).childNodes,
          remark ? make("p", { class: "warn" }, remark) : "");
      }
      case "call": return callElement(block, expand);
      case "provider": return make("div", { class: "provider" }, content.text);
      case "summary":
        return make("details", { class: "thinking" }, make("summary", {}, "Earlier messages, in short"), make("div", {}, content.text));
      case "plugin":
        return make("details", { class: "call", open: true }, make("summary", {}, content.title), make("div", { class: "body" }, bodyElement(content.body, block.lines)));
      case "end": return endElement(content);
      case "note": return make("p", { class: content.level === "warning" ? "warn" : "dim" }, content.text);
      default: return null;
    }
  })();
  if (!element) return make("div", { hidden: true });
  element.id = `block-${block.id}`;
  if (block.agent) {
    element.classList.add("of-agent");
    element.prepend(make("span", { class: "dim" }, `${block.agent.name}: `));
  }
  return element;
}
