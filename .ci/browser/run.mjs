// Drives the page of `zk web` in a headless Chromium: node run.mjs ZK CHROMIUM PICTURES
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { start } from "./model.mjs";

const [zkPath, chromium, pictures] = process.argv.slice(2);
const LIMIT_MS = 20000;
// A page that is not in front draws no frames, by which the browser would look otherwise.
const POLL_MS = 50;
const found = process.env.PATH.split(":").map((dir) => join(dir, chromium)).find(existsSync);
mkdirSync(pictures, { recursive: true });
const home = mkdtempSync(join(tmpdir(), "zk-browser-"));
const project = join(home, "project");
mkdirSync(project);
writeFileSync(join(project, "a.txt"), "one\ntwo\nthree\n");

const model = await start();
const env = { PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "test-key", ZK_CONTEXT: "process" };
const zk = spawn(zkPath, ["web", "--permission-mode", "ask"], { cwd: project, env, stdio: ["pipe", "pipe", "ignore"] });
const links = [];
const awaited = [];
zk.stdout.on("data", (text) => {
  for (const link of text.toString().match(/http\S+/g) || []) {
    const next = awaited.shift();
    if (next) next(link); else links.push(link);
  }
});
const nextLink = () => links.shift() || new Promise((ready) => awaited.push(ready));

let failed = 0;
let passed = 0;
function check(name, isRight, more = "") {
  if (isRight) passed += 1; else failed += 1;
  console.log(`${isRight ? "ok  " : "FAIL"} ${name}${isRight || !more ? "" : `: ${more}`}`);
}

const browser = await puppeteer.launch({ executablePath: found, args: ["--no-sandbox"], headless: true });
const violations = [];
async function open(url, { width = 1280, height = 800, scheme = "light" } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.on("console", (message) => { if (/Content Security Policy|Refused to/.test(message.text())) violations.push(message.text()); });
  page.on("pageerror", (error) => violations.push(error.message));
  page.on("dialog", (dialog) => {
    if (dialog.type() === "alert") violations.push("a script of the conversation ran");
    return dialog.accept("another title");
  });
  await page.goto(url);
  return page;
}
const until = (page, holds, ...args) => page.waitForFunction(holds, { timeout: LIMIT_MS, polling: POLL_MS }, ...args).then(() => true, () => false);
const text = (page, selector) => page.$eval(selector, (element) => element.innerText);
async function type(page, words, sends = true) {
  await page.focus("#draft");
  await page.keyboard.type(words);
  if (sends) await page.keyboard.press("Enter");
}
const isReady = () => document.querySelector("#model").options.length > 0;
const users = (page) => page.$$eval(".user", (all) => all.length);

const first = await nextLink();
const page = await open(first);
check("a link opens the page", await until(page, isReady), await text(page, "#connection"));
check("its key is gone from the address", (await page.evaluate(() => location.hash)) === "");

await type(page, "say hello");
check("an answer streams to its end", await until(page, () => document.querySelector(".end")));
check("markdown is drawn", await page.$eval(".answer", (answer) =>
  ["h3", "strong", "table", "pre"].every((tag) => answer.querySelector(tag)) && answer.querySelectorAll("li").length === 2));
check("markup of a model stays text", await page.$eval(".answer", (answer) =>
  !answer.querySelector("img, script") && answer.innerText.includes("<script>")));

await type(page, "edit the file");
check("a question shows the difference", await until(page, () => document.querySelector(".card .diff .added")));
await page.screenshot({ path: join(pictures, "question.png") });
await page.keyboard.press("Enter");
await page.evaluate(() => new Promise((done) => setTimeout(done, 700)));
await page.keyboard.press("Enter");
check("Enter alone answers nothing", (await page.$$(".card")).length === 1);
await page.evaluate(() => document.querySelector(".card h2").focus());
await page.keyboard.press("ArrowDown");
await page.keyboard.press("Enter");
check("an arrow and Enter approve", await until(page, () => !document.querySelector(".card") && document.querySelectorAll(".end").length === 2), await text(page, "#work"));
check("the file is written", readFileSync(join(project, "a.txt"), "utf8").includes("two changed"));
check("the difference stays in the conversation", await page.$eval(".call", (call) => Boolean(call.querySelector(".added"))));

await type(page, "slow please");
check("a run can be stopped", await until(page, () => !document.querySelector("#stop").hidden));
await type(page, "queued text");
check("a text waits", await until(page, () => document.querySelector("#queue").innerText.includes("queued text")));
await page.keyboard.down("Alt");
await page.keyboard.press("ArrowUp");
await page.keyboard.up("Alt");
check("it is taken back", await until(page, () => document.querySelector("#queue").hidden && document.querySelector("#draft").value.includes("queued text")));
await page.$eval("#draft", (draft) => { draft.value = ""; });
await page.keyboard.press("Escape");
check("Esc stops the run", await until(page, () => document.querySelector("#stop").hidden));

await page.reload();
check("a page that is loaded again shows the same", await until(page, () => document.querySelectorAll(".user").length === 3));
await type(page, "/model");
check("a command says its text", await until(page, () => document.querySelector("#transcript").innerText.includes("anthropic/")));
await type(page, "/mod", false);
check("commands are completed", await until(page, () => {
  const list = document.querySelector("#completions");
  return !list.hidden && list.dataset.of === document.querySelector("#draft").value;
}));
await page.keyboard.press("Tab");
check("Tab takes one", (await page.$eval("#draft", (draft) => draft.value)).startsWith("/mod"));
await page.$eval("#draft", (draft) => { draft.value = ""; });
await page.select("#mode", "read-only");
check("the permission mode is set", await until(page, () => document.querySelector("#mode").value === "read-only"));

check("the session is listed", await until(page, () => document.querySelectorAll("#session-list li").length === 1));
await page.$eval("#session-list .acts button", (button) => button.click());
check("it gets another title", await until(page, () => document.querySelector("#session-list").innerText.includes("another title")));
await page.click("#new-session");
check("a new session is empty", await until(page, () => document.querySelectorAll(".user").length === 0));
await page.$eval("#session-list .session", (button) => button.click());
check("the one before is opened again", await until(page, () => document.querySelectorAll(".user").length === 3), String(await users(page)));

zk.stdin.write("\n");
const second = await nextLink();
const stolen = await open(first);
check("a link that was used lets nobody in", await until(stolen, () => document.querySelector("#connection").innerText.includes("link")));
const phone = await open(second, { width: 390, scheme: "dark" });
check("a page that finds several conversations lists them by title", await until(phone, () =>
  document.querySelector("#open-now").open && document.querySelector("#open-list").innerText.includes("another title")));
await phone.screenshot({ path: join(pictures, "open now.png") });
await phone.$$eval("#open-list button", (all) => all.find((one) => one.innerText.includes("another title")).click());
check("a second link opens another page", await until(phone, isReady));
check("it is in the conversation that was chosen", await until(phone, () => document.querySelectorAll(".user").length === 3), String(await users(phone)));
check("nothing is wider than a phone", await phone.evaluate(() => document.documentElement.scrollWidth <= 390));

const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
async function look(one, name) {
  await one.bringToFront();
  await one.evaluate(axe);
  for (const scheme of ["light", "dark"]) {
    await one.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    const found = await one.evaluate(() => globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa"] })
      .then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 80)).join(" | ")}`)));
    check(`names and contrast, ${name}, ${scheme}`, found.length === 0, found.join("\n"));
    await one.screenshot({ path: join(pictures, `${name}-${scheme}.png`) });
  }
}
await look(page, "desktop");
await look(phone, "phone");

// The page that came second is in any of the conversations.
await phone.$eval("#session-list .session", (button) => button.click());
check("it takes part in the conversation of the first", await until(phone, () => document.querySelectorAll(".user").length === 3));
await phone.select("#mode", "ask");
await type(phone, "edit it again");
const hasCard = () => document.querySelector(".card .diff");
const isThere = await until(phone, hasCard);
await page.bringToFront();
check("a question comes to each page of the conversation", isThere && await until(page, hasCard));
check("a question is announced", await until(page, () => /\S/.test(document.querySelector("#announcer").textContent)));
await look(page, "question");
await look(phone, "question on a phone");
check("a question is not wider than a phone", await phone.evaluate(() => document.documentElement.scrollWidth <= 390));
await phone.evaluate(() => document.querySelector(".card h2").focus());
await phone.keyboard.press("ArrowDown");
await phone.keyboard.press("Enter");
const isAnswered = () => !document.querySelector(".card");
const isOver = await until(phone, isAnswered);
await page.bringToFront();
check("its answer ends it on each of them", isOver && await until(page, isAnswered));

const [address] = second.split("#");
zk.stdin.write("\n");
const key = (await nextLink()).split("#")[1];
const foreign = await browser.newPage();
await foreign.goto(model.url);
check("a page of another origin gets nothing in exchange for a link", await foreign.evaluate((address, key) =>
  fetch(`${address}session`, { method: "POST", body: key, mode: "cors" }).then(() => false, () => true), address, key));
check("nor does it get a WebSocket", await foreign.evaluate((address) => new Promise((done) => {
  const socket = new WebSocket(address.replace("http", "ws"), ["zk.rpc"]);
  socket.onopen = () => done(false);
  socket.onerror = () => done(true);
}), address));
check("nor can it show the page in a frame", await foreign.evaluate((address) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.onload = () => { try { done(frame.contentWindow.length === 0 && !frame.contentDocument); } catch { done(true); } };
  frame.src = address;
  document.body.append(frame);
}), address));
check("nothing broke the policy of the page", violations.length === 0, violations.join("\n"));

const ended = new Promise((done) => zk.on("exit", done));
zk.kill("SIGINT");
await ended;
check("the end of the server is said", await until(page, () => /\S/.test(document.querySelector("#connection").textContent)));
await browser.close();
model.close();
rmSync(home, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
