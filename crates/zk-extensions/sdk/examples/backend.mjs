// An agent of its own, as an extension of zk: it counts the lines of the file that a prompt ends with.
import { Extension } from "./zk-extension.mjs";

const ext = new Extension("counter", "1.0");

ext.backend("counter", "counts lines of files", ({ prompt, results, model }) => {
  const last = results.at(-1);
  if (last) return last.failed ? `It cannot be counted: ${last.text}` : `Counted: ${last.text.trim().split(/\s+/)[0]}`;
  ext.say("A file to count.", { thought: true });
  ext.say("I count with zk's shell, ");
  ext.say("which asks you where it has to.");
  const path = `'${prompt.split(/\s+/).at(-1).replaceAll("'", "'\\''")}'`;
  return [{ tool: "shell", args: { command: `wc ${model === "lines" ? "-l" : "-w"} ${path}` } }];
}, { models: ["lines", "words"] });

ext.run();
