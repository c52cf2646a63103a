#!/usr/bin/env node
// Starts the program of this machine's package, in the place of this process where Node can do that.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

function program() {
  const tried = [];
  for (const libc of process.platform === "linux" ? ["", "-musl"] : [""]) {
    const name = `@zk-agent/zk-${process.platform}-${process.arch}${libc}`;
    try {
      return require.resolve(`${name}/bin/zk`);
    } catch {
      tried.push(name);
    }
  }
  const windows = process.platform === "win32" ? " On Windows, zk runs inside of WSL2: install it there." : "";
  console.error(
    `zk: there is no program for ${process.platform} on ${process.arch}.${windows}\n` +
      `Looked for ${tried.join(", ")}. Install again without --omit=optional, or see https://github.com/zk-agent/zk.`,
  );
  process.exit(1);
}

const path = program();
const args = process.argv.slice(2);
if (typeof process.execve === "function") {
  try {
    process.execve(path, [path, ...args], process.env);
  } catch {
    // Some systems refuse; a child does the same.
  }
}
const child = spawn(path, args, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`zk: ${path} does not start: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + (os.constants.signals[signal] ?? 0)));
