// Uses real servers with zk's client, and a real client with `zk mcp serve`. Usage: servers.mjs ZK DIR
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [zk, dir] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, "node_modules/@modelcontextprotocol");
const everything = join(modules, "server-everything/dist/index.js");
const filesystem = join(modules, "server-filesystem/dist/index.js");
const inspector = join(modules, "inspector/clients/launcher/build/index.js");
const failures = [];
const children = [];

const home = join(dir, "servers");
const project = join(home, "project");
rmSync(home, { recursive: true, force: true });
mkdirSync(project, { recursive: true });
writeFileSync(join(project, "note.txt"), "a note of the project\n");
const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: home, ZK_HOME: home, ZK_CONTEXT: "process" };

// A program to its end: what it printed, and its exit code.
function run(program, args) {
  return new Promise((done) => {
    const child = spawn(program, args, { env, cwd: project, stdio: ["ignore", "pipe", "pipe"] });
    const limit = setTimeout(() => child.kill("SIGKILL"), 30_000);
    let output = "";
    child.stdout.on("data", (data) => (output += data));
    child.stderr.on("data", (data) => (output += data));
    child.on("close", (code) => {
      clearTimeout(limit);
      done({ code, output });
    });
  });
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

// A server that says on standard error or output when it listens.
async function listening(args) {
  const port = await freePort();
  const child = spawn(process.execPath, args, { env: { ...env, PORT: String(port) }, cwd: project });
  children.push(child);
  await new Promise((done, fail) => {
    let said = "";
    const heard = (data) => {
      said += data;
      if (said.includes(String(port))) done();
    };
    child.stdout.on("data", heard);
    child.stderr.on("data", heard);
    child.on("close", () => fail(new Error(`${args.join(" ")} ended: ${said}`)));
  });
  return port;
}

// Calls tools of a server that is set up as `settings`: the name of each, its arguments, and a part of its result.
async function uses(name, settings, calls) {
  writeFileSync(join(home, "settings.toml"), `[mcp.servers.s]\n${settings}\n`);
  for (const [tool, args, part] of calls) {
    const { code, output } = await run(zk, ["mcp", "call", "s", tool, JSON.stringify(args)]);
    if (code !== 0 || !output.includes(part)) {
      failures.push(name);
      console.log(`servers: ${name}: ${tool} ended with ${code}: ${output.slice(0, 600)}`);
      return;
    }
  }
  console.log(`servers: ${name}: ${calls.length} calls`);
}

const quoted = (words) => `[${words.map((word) => JSON.stringify(word)).join(", ")}]`;
const program = (...args) => `command = ${JSON.stringify(process.execPath)}\nargs = ${quoted(args)}`;
const eras = () => {
  const found = readdirSync(join(home, "mcp/eras")).map((file) => readFileSync(join(home, "mcp/eras", file), "utf8"));
  return found.sort().join(" ");
};

async function servers() {
  const echo = ["echo", { message: "from far away" }, "from far away"];
  const calls = [
    echo,
    ["get-sum", { a: 2, b: 3 }, "5"],
    ["get-structured-content", { location: "Chicago" }, "temperature"],
    ["get-tiny-image", {}, "[image of type image/png]"],
    ["trigger-long-running-operation", { duration: 1, steps: 2 }, "ompleted"],
  ];
  await uses("everything by standard input and output", program(everything, "stdio"), calls);
  const read = ["read_text_file", { path: join(project, "note.txt") }, "a note of the project"];
  await uses("filesystem by standard input and output", program(filesystem, project), [
    read,
    ["list_directory", { path: project }, "note.txt"],
  ]);
  const http = await listening([everything, "streamableHttp"]);
  await uses("everything by streamable HTTP", `url = "http://127.0.0.1:${http}/mcp"`, calls);
  const sse = await listening([everything, "sse"]);
  // Nothing says that it is one of the first revision: it refuses what came later.
  await uses("everything by the stream of events of 2024-11-05", `url = "http://127.0.0.1:${sse}/sse"`, calls);
  await uses("a server of revision 2026-07-28", program(join(here, "modern.mjs")), [
    ["greet", { name: "zk" }, "Hello, zk"],
  ]);
  const modern = await listening([join(here, "modern.mjs"), "http"]);
  await uses("a server of revision 2026-07-28 by HTTP", `url = "http://127.0.0.1:${modern}/mcp"`, [
    ["greet", { name: "zk" }, "Hello, zk"],
  ]);
  const wanted = "event-stream handshake handshake handshake modern modern";
  if (eras() !== wanted) {
    failures.push("eras");
    console.log(`servers: found the eras ${eras()}, not ${wanted}`);
  }
}

// The inspector of the protocol as the client of zk.
async function inspected() {
  const cli = (...args) => run(process.execPath, [inspector, "--cli", zk, "mcp", "serve", ...args]);
  const listed = await cli("--method", "tools/list");
  const path = `path=${join(project, "note.txt")}`;
  const read = await cli("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", path);
  const wrong = [];
  if (listed.code !== 0 || !/"name": "read_file"/.test(listed.output)) wrong.push(listed);
  if (read.code !== 0 || !read.output.includes("a note of the project")) wrong.push(read);
  wrong.forEach(({ code, output }) => console.log(`inspector: ended with ${code}: ${output.slice(0, 600)}`));
  if (wrong.length > 0) failures.push("inspector");
  else console.log("inspector: lists the tools of `zk mcp serve` and calls one");
}

try {
  await servers();
  await inspected();
} finally {
  children.forEach((child) => child.removeAllListeners("close").kill("SIGKILL"));
}
if (failures.length > 0) {
  console.log(`failed: ${failures.join("; ")}`);
  process.exit(1);
}
