// Scenarios of `zk acp`, driven by acpx. Usage: run.mjs ZK RESULTS [WORD], where WORD is in the names of those that run
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startModel } from "./model.mjs";
import { validate } from "./schema.mjs";

const [zk, results, word = ""] = process.argv.slice(2);
const manifest = createRequire(import.meta.url).resolve("acpx/package.json");
const bin = JSON.parse(readFileSync(manifest, "utf8")).bin;
const acpx = join(dirname(manifest), typeof bin === "string" ? bin : bin.acpx);
const model = await startModel();
rmSync(results, { recursive: true, force: true });
mkdirSync(results, { recursive: true });
const home = mkdtempSync(join(tmpdir(), "zk-acp-"));
const env = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: home, ZK_HOME: home, ZK_CONTEXT: "process",
  ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "test-key",
};

// A project of its own for each scenario.
const project = () => {
  const dir = mkdtempSync(join(home, "project-"));
  mkdirSync(join(dir, ".git"));
  return dir;
};

const children = new Set();
const run = (cwd, args, more = {}) => new Promise((done) => {
  const all = ["--agent", `${more.zk ?? zk} acp`, "--cwd", cwd, "--ttl", "3", ...args];
  const child = spawn(process.execPath, [acpx, ...all], { cwd, env: { ...env, ...more.env }, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let out = "";
  let err = "";
  child.stdout.on("data", (piece) => { out += piece; });
  child.stderr.on("data", (piece) => { err += piece; });
  child.on("close", (code) => { children.delete(child); done({ code, out, err, messages: parse(out) }); });
});

const parse = (text) => text.split("\n").flatMap((line) => {
  try { return [JSON.parse(line)]; } catch { return []; }
});

const exec = (cwd, flags, prompt, more) => run(cwd, [...flags, "--format", "json", "exec", prompt], more);
const asks = (ran, prefix) => ran.messages.filter((message) => message.method?.startsWith(prefix));
const updates = (ran, kind) => ran.messages.filter((message) => message.params?.update?.sessionUpdate === kind);
const until = async (what, holds) => {
  for (let n = 0; n < 400; n += 1) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error(`${what} did not happen`);
};

const must = (holds, what, ran) => {
  if (!holds) throw new Error(`${what}\nexit ${ran?.code}\n${ran?.err?.slice(-1500)}\n${ran?.out?.slice(-3000)}`);
};
const seen = [];
const kept = (ran) => { seen.push(ran.messages); return ran; };

const scenarios = {
  async "a prompt is answered"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: say hello there"));
    must(ran.code === 0 && ran.out.includes("hello there"), "no answer", ran);
  },
  async "reasoning comes as thoughts"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: think well"));
    must(updates(ran, "agent_thought_chunk").length > 0, "no thought", ran);
  },
  async "an approved change is made"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: write made.txt by zk"));
    must(ran.code === 0 && readFileSync(join(cwd, "made.txt"), "utf8") === "by zk\n", "not written", ran);
    must(asks(ran, "session/request_permission").length === 1, "nobody was asked", ran);
  },
  async "a denied change is not made"(cwd) {
    const ran = kept(await exec(cwd, ["--deny-all"], "do: write made.txt by zk"));
    must(ran.code === 5 && !existsSync(join(cwd, "made.txt")), "written", ran);
  },
  async "reads need no question"(cwd) {
    writeFileSync(join(cwd, "a.txt"), "content of a\n");
    const ran = kept(await exec(cwd, ["--approve-reads"], "do: read a.txt"));
    must(ran.code === 0 && ran.out.includes("content of a"), "not read", ran);
    must(asks(ran, "session/request_permission").length === 0, "asked", ran);
  },
  async "an approved command runs and its output is shown"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: run touch made && echo 6*7=$((6*7))"));
    must(ran.code === 0 && ran.out.includes("6*7=42") && existsSync(join(cwd, "made")), "did not run", ran);
  },
  async "a denied command does not run"(cwd) {
    const ran = kept(await exec(cwd, ["--deny-all"], "do: run touch made"));
    must(ran.code === 5 && !existsSync(join(cwd, "made")), "ran", ran);
  },
  async "a prompt that takes too long times out"(cwd) {
    const ran = kept(await exec(cwd, ["--timeout", "2"], "do: slow"));
    must(ran.code === 3, "no timeout", ran);
  },
  async "buffers are read and written where there are any"(cwd) {
    writeFileSync(join(cwd, "a.txt"), "content of a\n");
    const read = kept(await exec(cwd, ["--approve-all"], "do: read a.txt"));
    must(asks(read, "fs/read_text_file").length > 0, "no buffer was read", read);
    const wrote = kept(await exec(cwd, ["--approve-all"], "do: write b.txt more"));
    must(asks(wrote, "fs/write_text_file").length > 0, "no buffer was written", wrote);
    must(readFileSync(join(cwd, "b.txt"), "utf8") === "more\n", "another content", wrote);
  },
  async "nothing is asked that the client does not offer"(cwd) {
    const flags = ["--approve-all", "--no-fs", "--no-terminal"];
    const ran = kept(await exec(cwd, flags, "do: write made.txt by zk"));
    must(existsSync(join(cwd, "made.txt")), "not written", ran);
    must(asks(ran, "fs/").length + asks(ran, "terminal/").length === 0, "asked for it", ran);
  },
  async "a plan is shown"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: plan"));
    must(updates(ran, "plan").at(-1)?.params.update.entries[0].content === "look", "no plan", ran);
  },
  async "a slash command is run"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "/model"));
    must(ran.code === 0 && ran.out.includes("anthropic/"), "no model", ran);
  },
  async "a failed request is an error"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: fail"));
    must(ran.code === 1 && ran.out.includes("no such thing"), "no error", ran);
  },
  async "without a key the client is told so"(cwd) {
    const ran = kept(await exec(cwd, ["--approve-all"], "do: say hello", { env: { ANTHROPIC_API_KEY: "", ANTHROPIC_BASE_URL: "" } }));
    must(ran.code !== 0 && ran.out.includes("-32000"), "no sign-in is asked for", ran);
  },
  async "tools of a server that the client names can be called"(cwd) {
    const config = join(cwd, "mcp.json");
    const servers = [{ name: "own tools", command: zk, args: ["mcp", "serve"], env: [{ name: "ZK_CONTEXT", value: "process" }] }];
    writeFileSync(config, JSON.stringify({ mcpServers: servers }));
    writeFileSync(join(cwd, "a.txt"), "read by a server\n");
    const prompt = 'do: use mcp_own-tools_read_file {"path":"a.txt"}';
    const ran = kept(await exec(cwd, ["--approve-all", "--mcp-config", config], prompt));
    must(ran.code === 0 && ran.out.includes("read by a server"), "not called", ran);
  },
  async "a session is gone on with"(cwd) {
    must((await run(cwd, ["sessions", "new", "--name", "one"])).code === 0, "no session");
    kept(await run(cwd, ["--format", "json", "prompt", "-s", "one", "do: say apples"]));
    // The one that owns the session ends first, so that it is loaded again.
    await new Promise((done) => setTimeout(done, 4500));
    const ran = kept(await run(cwd, ["--format", "json", "prompt", "-s", "one", "do: recall apples"]));
    must(ran.code === 0 && ran.out.includes("it was said"), "forgotten", ran);
  },
  async "a mode is set and holds"(cwd) {
    await run(cwd, ["sessions", "new", "--name", "modes"]);
    const set = await run(cwd, ["set-mode", "-s", "modes", "read-only"]);
    must(set.code === 0, "not set", set);
    const ran = kept(await run(cwd, ["--approve-all", "--format", "json", "prompt", "-s", "modes", "do: run touch made"]));
    must(!existsSync(join(cwd, "made")), "ran", ran);
  },
  async "an option is set"(cwd) {
    await run(cwd, ["sessions", "new", "--name", "options"]);
    const set = await run(cwd, ["--format", "json", "set", "-s", "options", "thinking", "low"]);
    must(set.code === 0, "not set", set);
  },
  async "a prompt is cancelled"(cwd) {
    await run(cwd, ["sessions", "new", "--name", "slow"]);
    const before = model.slow();
    const prompting = run(cwd, ["--format", "json", "prompt", "-s", "slow", "do: slow"]);
    await until("an answer", () => model.slow() > before);
    await until("a cancelled prompt", async () => (await run(cwd, ["cancel", "-s", "slow"])).out.includes("cancel requested"));
    const ran = kept(await prompting);
    must(ran.out.includes("cancelled"), "not cancelled", ran);
  },
  async "two sessions work at once"(cwd) {
    await run(cwd, ["sessions", "new", "--name", "a"]);
    await run(cwd, ["sessions", "new", "--name", "b"]);
    const [a, b] = await Promise.all(["a", "b"].map((name) =>
      run(cwd, ["--approve-all", "--format", "json", "prompt", "-s", name, `do: write ${name}.txt of ${name}`])));
    kept(a);
    kept(b);
    for (const [name, ran] of [["a", a], ["b", b]]) {
      must(existsSync(join(cwd, `${name}.txt`)), `${name} was not written`, ran);
    }
  },
  async "a session that is not there is said to be missing"(cwd) {
    const ran = await run(cwd, ["--format", "json", "prompt", "-s", "nobody", "do: say hello"]);
    must(ran.code === 4, "found", ran);
  },
};

const alive = () => readdirSync("/proc").filter((pid) => {
  try {
    return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, "utf8").includes(`ZK_HOME=${home}`);
  } catch { return false; }
});

let failed = 0;
const wanted = Object.entries(scenarios).filter(([name]) => name.includes(word));
for (const [name, scenario] of wanted) {
  const begun = Date.now();
  try {
    await scenario(project());
    console.log(`ok   ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}
let left = [];
try {
  await until("the end of all processes", () => { left = alive(); return left.length === 0; });
} catch {
  failed += 1;
  console.log(`FAIL processes are left: ${left.map((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")).join("; ")}`);
}
let messages = 0;
for (const [index, trace] of seen.entries()) {
  writeFileSync(join(results, `trace-${index}.ndjson`), trace.map((message) => JSON.stringify(message)).join("\n"));
  const { count, wrong } = validate(trace);
  messages += count;
  failed += wrong.length;
  wrong.forEach((why) => console.log(`FAIL schema: ${why}`));
}
if (messages === 0) failed += 1;
console.log(`${wanted.length} scenarios, ${messages} messages checked, ${failed} failures`);
model.close();
rmSync(home, { recursive: true, force: true });
process.exit(failed === 0 ? 0 : 1);
