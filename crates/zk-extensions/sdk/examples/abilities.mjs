// The eight abilities of a plugin, as an extension of zk.
import { Extension } from "./zk-extension.mjs";

const ext = new Extension("abilities", "1.0");

// 1. Refuse a call.
ext.gate((call) => {
  if (String(call.args.command ?? "").includes("push --force")) return "no force push here";
});

// 2. Correct the arguments of a call, before anybody judges it.
ext.on("tool:prepare", ({ args }) => {
  if (String(args.path ?? "").startsWith("file://")) return { ...args, path: args.path.slice("file://".length) };
});

// 3. A tool.
ext.tool("roll", "Rolls dice.", { dice: "integer" }, ({ dice }) => {
  ext.progress("rolling …");
  return `${dice} dice: all ones`;
}, { effects: {} });

// 4. Change a result before the model sees it.
ext.on("tool:transform", (result) => {
  if (result.tool === "roll") return { content: "three ones" };
});

// 5. A command, with completion.
ext.command("goal", "keeps a goal", async (args) => {
  if (!args) return (await ext.entries("goal")).map((entry) => entry.data).join("\n") || "no goal";
  if (!(await ext.confirm(`Keep “${args}”?`))) return "not kept";
  await ext.append("goal", args);
  return `goal: ${args}`;
}, { arguments: "TEXT", complete: () => ["ship it", "rest"] });

// 6. Tell the model something: in the system prompt, and about what holds now.
ext.section("house-rules", "Write tests first.");
ext.context("freeze", () => (ext.settings.frozen ? "the release is frozen" : null));

// 7. Watch what happens, and show it.
ext.tell("tool:after", (event) => {
  ext.notify(`${event.tool ?? "a call"} is done`);
});

// 8. Draw a kind of text.
ext.renderer("fence:log", [{ matches: "ERROR.*", role: "bad", bold: true }]);

ext.run();
