// An extension of zk: a tool, a gate and a command. Node 22.18 and later runs it as it is.
import { Extension } from "./zk-extension.mjs";

const ext = new Extension("NAME", "0.1.0");

ext.tool(
  "word_count",
  "Counts the words of a text.",
  { text: "string" },
  ({ text }: { text: string }) => `${text.split(/\s+/).filter(Boolean).length} words`,
  { effects: {} },
);

ext.gate((call) => {
  if (String(call.args.command ?? "").includes("push --force")) return "no force push here";
});

ext.command("shout", "says it louder", (args) => args.toUpperCase() + "!", { arguments: "TEXT" });

ext.run();
