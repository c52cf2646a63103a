// Runs the conformance suite of the protocol: its client scenarios of both eras against zk's client, and those of its server
// scenarios that need no tools of their own against `zk mcp serve`. Usage: run.mjs CLIENT ZK DIR
import { spawn } from "node:child_process";
import { createServer, request } from "node:http";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [client, zk, dir] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const failures = [];

function run(args, env = {}) {
  return new Promise((done) => {
    const child = spawn(process.execPath, [suite, ...args], { env: { ...process.env, ...env } });
    let output = "";
    child.stdout.on("data", (data) => (output += data));
    child.stderr.on("data", (data) => (output += data));
    child.on("close", (code) => done({ code, output }));
  });
}

// The lines of a summary: the line, the scenario, what passed and what failed.
function summary(output) {
  return [...output.matchAll(/^[✓✗] ([\w/.-]+): (\d+) passed, (\d+) failed/gm)];
}

// How many scenarios each revision requires of clients: a suite that runs fewer is not the one that is meant.
const REQUIRED = { "2025-11-25": 18, "2026-07-28": 32 };

// A required scenario has passed if it failed nothing and checked something.
async function clientScenarios(revision) {
  const folder = join(dir, revision);
  rmSync(folder, { recursive: true, force: true });
  const { code, output } = await run(["client", "--command", client, "--requirements", revision, "-o", folder]);
  const [scored, unscored = ""] = output.split(/^Not scored/m);
  const required = summary(scored).filter(([, name]) => !unscored.includes(`✗ ${name} `) && !unscored.includes(`✓ ${name} `));
  const bad = required.filter(([line, , passed]) => line.startsWith("✗") || passed === "0").map(([line]) => line);
  const checked = required.reduce((sum, [, , passed]) => sum + Number(passed), 0);
  const good = required.length - bad.length;
  console.log(`client, ${revision}: ${good} of ${REQUIRED[revision]} scenarios passed, ${checked} checks`);
  bad.forEach((line) => console.log(`  ${line}`));
  if (code !== 0 || bad.length > 0 || required.length !== REQUIRED[revision]) failures.push(`client scenarios of ${revision}`);
}

// The suite cannot send a token: this puts it in, and nothing else.
function withToken(port, token) {
  const server = createServer((incoming, outgoing) => {
    const host = incoming.headers.host?.replace(`:${server.address().port}`, `:${port}`);
    const headers = { ...incoming.headers, host, authorization: `Bearer ${token}` };
    const { method, url: path } = incoming;
    const onward = request({ host: "127.0.0.1", port, method, path, headers, setHost: false }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

const SERVER = {
  "2025-11-25": ["server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-session-lifecycle"],
  "2026-07-28": ["tools-list", "dns-rebinding-protection", "http-header-validation"],
};

// Checks of these scenarios that need what zk as a server does not have: the tools of a test server, prompts and resources.
const BESIDE = {
  "server-stateless": [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
  ],
  caching: [
    "sep-2549-prompts-list-caching-hints",
    "sep-2549-resources-list-caching-hints",
    "sep-2549-resources-templates-list-caching-hints",
  ],
};

// The checks of a scenario but for those: how many there are, and which failed.
function checks(folder, scenario) {
  const run = readdirSync(folder).find((name) => name.startsWith(`server-${scenario}-2`));
  if (!run) return { count: 0, failed: ["it did not run"] };
  const all = JSON.parse(readFileSync(join(folder, run, "checks.json"), "utf8"));
  const counted = all.filter(({ id, status }) => status !== "SKIPPED" && !BESIDE[scenario].includes(id));
  return { count: counted.length, failed: counted.filter(({ status }) => status !== "SUCCESS").map(({ id }) => id) };
}

async function serverScenarios() {
  const home = join(dir, "home");
  mkdirSync(home, { recursive: true });
  const token = "conformance-suite-token";
  const env = { PATH: process.env.PATH, HOME: home, ZK_HOME: home, ZK_CONTEXT: "process", ZK_MCP_TOKEN: token };
  const serving = spawn(zk, ["mcp", "serve", "--http", "127.0.0.1:0"], { env, cwd: home });
  let said = "";
  const port = await new Promise((done, fail) => {
    serving.on("close", () => fail(new Error(`zk mcp serve ended: ${said}`)));
    serving.stderr.on("data", (data) => {
      said += data;
      const found = said.match(/http:\/\/127\.0\.0\.1:(\d+)\/mcp/);
      if (found) done(Number(found[1]));
    });
  });
  const proxy = await withToken(port, token);
  const url = `http://127.0.0.1:${proxy.address().port}/mcp`;
  for (const [revision, names] of Object.entries(SERVER)) {
    const folder = join(dir, `server-${revision}`);
    rmSync(folder, { recursive: true, force: true });
    // All that there are, in one go: those that want tools of a test server fail, and are not looked at.
    const { output } = await run(["server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", folder]);
    const ran = summary(output).filter(([, name]) => names.includes(name));
    const bad = ran.filter(([line, , passed]) => line.startsWith("✗") || passed === "0").map(([line]) => line);
    console.log(`server, ${revision}: ${ran.length - bad.length} of ${names.length} scenarios passed`);
    bad.forEach((line) => console.log(`  ${line}`));
    if (bad.length > 0 || ran.length !== names.length) failures.push(`server scenarios of ${revision}`);
    if (revision !== "2026-07-28") continue;
    for (const scenario of Object.keys(BESIDE)) {
      const { count, failed } = checks(folder, scenario);
      console.log(`server, ${revision}, ${scenario}: ${count - failed.length} of ${count} checks passed`);
      failed.forEach((id) => console.log(`  ${id}`));
      if (failed.length > 0 || count === 0) failures.push(scenario);
    }
  }
  serving.removeAllListeners("close");
  serving.kill("SIGTERM");
  proxy.closeAllConnections();
  proxy.close();
}

// The scenarios of the sign-in of 2025-03-26, which no later revision requires.
async function earlierSignIn() {
  const folder = join(dir, "backcompat");
  rmSync(folder, { recursive: true, force: true });
  const { code, output } = await run(["client", "--command", client, "--suite", "backcompat", "-o", folder]);
  const names = ["metadata-backcompat", "endpoint-fallback"];
  const good = summary(output).filter(
    ([line, scenario, passed]) => line.startsWith("✓") && passed !== "0" && names.some((name) => scenario.endsWith(`-${name}`)),
  );
  console.log(`client, sign-in of 2025-03-26: ${good.length} of ${names.length} scenarios passed`);
  if (code !== 0 || good.length !== names.length) {
    failures.push("sign-in of 2025-03-26");
    console.log(output.slice(-600));
  }
}

// Scenarios of the extension for skills, which no revision requires. Their servers offer the same: what differs is whether a
// person takes the skill into use, which only the name of the scenario says.
async function skillScenarios() {
  let good = 0;
  const names = ["no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"];
  for (const name of names) {
    const scenario = `sep-2640-client-${name}`;
    const folder = join(dir, scenario);
    rmSync(folder, { recursive: true, force: true });
    const env = name === "no-prefetch" ? {} : { ZK_LOAD_SKILLS: "1" };
    const args = ["client", "--command", client, "--scenario", scenario, "--spec-version", "2026-07-28", "--force", "-o", folder];
    const { output } = await run(args, env);
    const runs = existsSync(folder) ? readdirSync(folder).map((one) => join(folder, one, "checks.json")) : [];
    const all = runs.filter((file) => existsSync(file)).flatMap((file) => JSON.parse(readFileSync(file, "utf8")));
    const wrong = all.filter(({ status }) => status === "FAILURE" || status === "WARNING");
    const passed = all.filter(({ status }) => status === "SUCCESS").length;
    if (wrong.length === 0 && passed > 0) {
      good += 1;
    } else {
      failures.push(scenario);
      console.log(`  ${scenario}: ${passed} passed, failed: ${wrong.map(({ id }) => id).join(", ")}\n${output.slice(-600)}`);
    }
  }
  console.log(`client, skills: ${good} of ${names.length} scenarios passed`);
}

await clientScenarios("2025-11-25");
await clientScenarios("2026-07-28");
await earlierSignIn();
await skillScenarios();
await serverScenarios();
if (failures.length > 0) {
  console.log(`failed: ${failures.join("; ")}`);
  process.exit(1);
}
