// The page: what is shown of the view, and what its keys and buttons do.
const at = (id) => document.getElementById(id);
const ACTIVITIES = {
  idle: "", starting: "starting", compacting: "making the conversation smaller", waiting: "waiting for the model",
  silent: "the model is silent", retrying: "waits to ask again", thinking: "thinking", answering: "answering",
  writing: "writing a call", running: "running", asking: "waits for your answer", stopping: "stopping",
};

class Page {
  constructor(wire) {
    Object.assign(this, { wire, view: new View(), conversation: null, seq: null, session: null, drawn: new Map(), dirty: new Set(), shown: new Map() });
    this.listen();
  }

  // ---- the connection

  async opened(hello) {
    at("connection").textContent = "";
    at("place").textContent = hello.cwd;
    this.cwd = hello.cwd;
    const again = hello.conversations.find((open) => open.conversation === this.conversation);
    if (again) return this.follow(again, this.seq);
    const wanted = sessionStorage.getItem("zk-conversation");
    const open = hello.conversations.find((open) => open.conversation === wanted);
    await this.follow(open || await this.choose(hello.conversations) || await this.ask("session/new"), null);
    return this.listSessions();
  }

  // The conversation to show at the start: the only one that is open, or the one that the person chooses of several.
  // Nothing for a new one.
  async choose(conversations) {
    if (conversations.length < 2) return conversations[0];
    const titles = await this.titlesOf(conversations);
    const dialog = at("open-now");
    return new Promise((resolve) => {
      const button = (open) => make("button", { type: "button", class: "session", onclick: () => { dialog.close(); resolve(open); } },
        titles.get(open.session) || "New session", make("br"),
        make("small", { class: "dim" }, `${open.is_running ? "running" : "idle"} · ${open.cwd}`));
      at("open-list").replaceChildren(...conversations.map((open) => make("li", {}, button(open))));
      // Also after Escape.
      dialog.onclose = () => resolve(undefined);
      if (!dialog.open) dialog.showModal();
    });
  }

  // Titles of the stored sessions of conversations.
  async titlesOf(conversations) {
    const list = (cwd) => this.ask("session/list", { cwd, limit: 50 }).catch(() => ({ sessions: [] }));
    const lists = await Promise.all([...new Set(conversations.map((open) => open.cwd))].map(list));
    return new Map(lists.flatMap(({ sessions }) => sessions).map((row) => [row.session, row.title]));
  }

  async ask(method, params) {
    try {
      return await this.wire.ask(method, params);
    } catch (error) {
      this.say(error.message);
      throw error;
    }
  }

  // Sends a request about this conversation. What fails is said on the page.
  async about(method, params = {}) {
    return this.ask(method, { conversation: this.conversation, ...params });
  }

  async follow(open, after) {
    if (this.conversation && this.conversation !== open.conversation) {
      this.wire.ask("unsubscribe", { conversation: this.conversation }).catch(() => undefined);
    }
    if (after === null) this.clear();
    this.conversation = open.conversation;
    this.session = open.session;
    sessionStorage.setItem("zk-conversation", open.conversation);
    await this.about("subscribe", after === null ? {} : { after });
    await this.loadSettings();
  }

  notified(method, params) {
    if (params.conversation !== this.conversation) return;
    if (params.seq !== undefined) this.seq = params.seq;
    switch (method) {
      case "conversation/patch": this.patch(params.patch); break;
      case "conversation/given_back": this.giveBack(params.text); break;
      case "conversation/settled": this.listSessions(); break;
      case "conversation/closed": this.say("this conversation is closed"); break;
      default:
    }
  }

  // ---- the view

  patch(patch) {
    const wasRunning = this.view.isRunning;
    const [what, thing] = this.view.apply(patch);
    if (what === "all") this.clearTranscript();
    if (what === "block" || what === "removed") this.dirty.add(thing.id);
    if (what === "body") {
      const block = this.view.blocks.get(thing.id);
      if (block) { block.lines = thing.lines; this.dirty.add(thing.id); }
    }
    if (what === "block" && thing.closed && thing.content.type === "answer" && !thing.agent) this.announce(thing.content.text);
    if (what === "cards" || what === "all") this.drawCards();
    if (what === "queue" || what === "all") this.drawQueue();
    if (what === "work" || what === "all") this.drawWork();
    if (wasRunning !== this.view.isRunning) this.loadSettings();
    this.later();
  }

  // Draws once a frame, however many patches come.
  later() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.draw(); });
  }

  draw() {
    const transcript = at("transcript");
    const isAtEnd = transcript.scrollHeight - transcript.scrollTop - transcript.clientHeight < 80;
    const ids = this.dirty.size ? [...this.dirty] : [];
    this.dirty.clear();
    if (this.all) { ids.splice(0, ids.length, ...this.view.blocks.keys()); this.all = false; }
    for (const id of ids) {
      const block = this.view.blocks.get(id);
      const before = this.drawn.get(id);
      if (!block) { if (before) before.remove(); this.drawn.delete(id); continue; }
      const element = blockElement(block, (id) => this.expand(id));
      if (before) {
        if (before.tagName === "DETAILS" && element.tagName === "DETAILS" && before.dataset.touched) {
          element.open = before.open;
          element.dataset.touched = "1";
        }
        before.replaceWith(element);
      } else transcript.append(element);
      this.drawn.set(id, element);
    }
    this.drawStatus();
    if (isAtEnd) transcript.scrollTop = transcript.scrollHeight;
  }

  clearTranscript() {
    at("transcript").replaceChildren();
    this.drawn.clear();
    this.all = true;
  }

  clear() {
    this.view.reset({});
    this.clearTranscript();
    this.drawCards();
    this.drawQueue();
    this.drawWork();
  }

  async expand(block) {
    const { lines } = await this.about("body", { block });
    const found = this.view.blocks.get(block);
    if (found) { found.lines = lines; this.dirty.add(block); this.later(); }
  }

  drawStatus() {
    const { activity, run_ms: run, cost, gauge } = this.view.status;
    const words = ACTIVITIES[activity.doing] ?? activity.doing;
    const parts = [words];
    if (activity.doing === "running") parts.push((activity.calls || []).join(", "));
    if (activity.doing === "retrying") parts.push(activity.why);
    if (run !== undefined && run !== null && words) parts.push(seconds(run));
    if (gauge) parts.push(`context ${gauge.percent} %`);
    if (cost) parts.push(`$${cost.toFixed(4)}`);
    at("status").textContent = parts.filter(Boolean).join(" · ");
    at("stop").hidden = !this.view.isRunning;
    at("steer").hidden = !this.view.isRunning;
    at("send").textContent = this.view.isRunning ? "Queue" : "Send";
  }

  drawCards() {
    const known = new Set(this.view.cards.map((card) => card.id));
    for (const [id, element] of this.shown) if (!known.has(id)) { element.remove(); this.shown.delete(id); }
    for (const card of this.view.cards.filter((card) => !this.shown.has(card.id))) {
      const element = cardElement(card, (card, answer) => {
        this.about("answer", { id: card.id, digest: card.digest, answer }).catch(() => undefined);
      });
      this.shown.set(card.id, element);
      at("cards").append(element);
      this.announce(`Question: ${titleOf(card)}`);
      // What is being typed goes on; otherwise the question has the focus, but none of its choices.
      if (!at("draft").value) element.querySelector("h2").focus();
    }
  }

  drawQueue() {
    const list = at("queue");
    list.hidden = !this.view.queue.length;
    list.replaceChildren(...this.view.queue.map((queued) => make("li", {},
      make("span", {}, `${queued.steers ? "interrupts" : "waits"}: ${queued.text}`),
      make("button", { type: "button", onclick: () => this.takeBack(queued) }, "Take back"))));
  }

  async takeBack(queued) {
    await this.about("unqueue", { id: queued.id });
    this.giveBack(queued.text);
  }

  drawWork() {
    const checklist = at("checklist");
    checklist.hidden = !this.view.checklist.length;
    const signs = { open: ["☐", "to do: "], current: ["▸", "in progress: "], done: ["☑", "done: "] };
    checklist.replaceChildren(...this.view.checklist.map((item) => {
      const [sign, words] = signs[item.state] || ["·", ""];
      return make("p", { class: item.state === "done" ? "dim" : "" }, make("span", { "aria-hidden": "true" }, `${sign} `),
        make("span", { class: "hidden-text" }, words), item.text);
    }));
    const agents = at("agents");
    const rows = [...this.view.agents.filter((agent) => agent.state === "running").map((agent) => `${agent.name}: ${agent.task}`),
      ...this.view.jobs.filter((job) => job.state.state !== "ended").map((job) => `${job.id}: ${job.command}`)];
    agents.hidden = !rows.length;
    agents.replaceChildren(...rows.map((row) => make("p", { class: "dim" }, row)));
  }

  say(text) {
    at("transcript").append(make("p", { class: "warn" }, text));
    this.announce(text);
    at("transcript").scrollTop = at("transcript").scrollHeight;
  }

  announce(text) { at("announcer").textContent = text.slice(0, 2000); }

  // ---- what the person does

  giveBack(text) {
    const draft = at("draft");
    draft.value = draft.value ? `${text}\n${draft.value}` : text;
    draft.focus();
  }

  async send(steers) {
    const draft = at("draft");
    const text = draft.value.trim();
    if (!text) return;
    draft.value = "";
    this.closeCompletions();
    try {
      await this.choosing;
      if (/^\/[a-z][\w:-]*(\s|$)/i.test(text)) {
        const { said, ended } = await this.about("command", { line: text });
        if (said) this.say(said);
        if (ended) await this.newSession();
        await this.loadSettings();
      } else await this.about(steers ? "steer" : "submit", { text });
    } catch {
      this.giveBack(text);
    }
  }

  stop() { return this.about("stop"); }

  async newSession() { await this.follow(await this.ask("session/new"), null); await this.listSessions(); }

  async loadSettings() {
    const settings = await this.about("settings/get");
    // Models come and go with the conversation, not with its runs.
    if (this.modelsOf !== this.conversation) {
      this.models = (await this.about("models")).models;
      this.modelsOf = this.conversation;
    }
    const models = this.models;
    const current = models.find((model) => model.name === settings.model);
    const options = (select, values, chosen) => {
      const all = values.includes(chosen) || !chosen ? values : [chosen, ...values];
      select.replaceChildren(...all.map((value) => make("option", { value, selected: value === chosen }, value)));
      select.disabled = !all.length;
    };
    options(at("model"), models.map((model) => model.name), settings.model);
    options(at("thinking"), (current && current.thinking) || [], settings.thinking);
    options(at("mode"), ["read-only", "ask", "accept-edits", "auto", "all"], settings.mode);
    at("place").textContent = settings.cwd;
    this.session = settings.session || this.session;
  }

  async setting(name, value) {
    // A prompt waits for this, so that it runs with what was chosen before it.
    this.choosing = this.about("settings/set", { [name]: value }).catch(() => undefined);
    await this.choosing;
    await this.loadSettings();
  }

  async listSessions() {
    const text = at("search").value.trim();
    const params = { cwd: this.cwd, limit: 50 };
    const { sessions } = text ? await this.ask("session/search", { ...params, text }) : await this.ask("session/list", params);
    const current = sessions.find((row) => row.session === this.session);
    at("title").textContent = current ? current.title : "New session";
    document.title = `${at("title").textContent} · zk`;
    // A list that is drawn anew takes the focus from whoever is in it.
    const drawn = JSON.stringify([this.session, sessions]);
    if (drawn === this.listed) return;
    this.listed = drawn;
    at("session-list").replaceChildren(...sessions.map((row) => this.sessionRow(row)));
  }

  sessionRow(row) {
    const isCurrent = row.session === this.session;
    const when = new Date(row.updated_ms).toLocaleString();
    const open = make("button", { type: "button", class: "session", "aria-current": isCurrent ? "true" : false,
      disabled: Boolean(row.unreadable), onclick: () => this.openSession(row) },
      row.title || row.session, make("br"), make("small", { class: "dim" }, row.unreadable || row.found || `${when} · ${row.messages} messages`));
    const acts = make("div", { class: "acts" },
      make("button", { type: "button", "aria-label": `Rename ${row.title}`, onclick: () => this.rename(row) }, "Rename"),
      make("button", { type: "button", "aria-label": `Remove ${row.title}`, onclick: () => this.remove(row) }, "Remove"));
    return make("li", {}, open, acts);
  }

  async openSession(row) {
    this.toggleSessions(false);
    await this.follow(await this.ask("session/open", { session: row.session }), null);
    await this.listSessions();
  }

  async rename(row) {
    const title = prompt("Title of the session", row.title);
    if (title === null) return;
    await this.ask("session/rename", { session: row.session, title });
    await this.listSessions();
  }

  async remove(row) {
    if (!confirm(`Remove the session "${row.title}" for good?`)) return;
    await this.ask("session/delete", { session: row.session });
    await this.listSessions();
  }

  toggleSessions(open) {
    at("sessions").classList.toggle("open", open);
    at("open-sessions").setAttribute("aria-expanded", String(at("sessions").classList.contains("open")));
  }

  async complete() {
    const text = at("draft").value;
    const name = /^\/([\w:-]*)$/.exec(text);
    if (!name) return this.closeCompletions();
    const { choices } = await this.about("complete", { kind: "command", text: name[1] });
    if (at("draft").value !== text) return undefined;
    const list = at("completions");
    list.dataset.of = text;
    list.hidden = !choices.length;
    list.replaceChildren(...choices.slice(0, 12).map(({ value, note }, index) => make("div", { role: "option", "aria-selected": String(index === 0),
      onclick: () => this.take(value) }, `/${value.replace(/^\//, "")}`, note ? make("span", { class: "dim" }, ` ${note}`) : "")));
    return undefined;
  }

  take(value) {
    at("draft").value = `/${value.replace(/^\//, "")} `;
    this.closeCompletions();
    at("draft").focus();
  }

  closeCompletions() { at("completions").hidden = true; }

  move(step) {
    const all = [...at("completions").children];
    const now = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
    all.forEach((option, index) => option.setAttribute("aria-selected", String(index === (now + step + all.length) % all.length)));
  }

  listen() {
    const draft = at("draft");
    at("composer").addEventListener("submit", (event) => { event.preventDefault(); this.send(false); });
    draft.addEventListener("input", () => this.complete().catch(() => undefined));
    draft.addEventListener("keydown", (event) => {
      const completes = !at("completions").hidden;
      const chosen = completes && at("completions").querySelector('[aria-selected="true"]');
      if (completes && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
        event.preventDefault();
        this.move(event.key === "ArrowDown" ? 1 : -1);
      } else if (completes && event.key === "Tab") {
        event.preventDefault();
        // A list that is behind the keys would put another command there.
        if (at("completions").dataset.of === draft.value) chosen.click();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send(event.ctrlKey || event.metaKey);
      } else if (event.key === "ArrowUp" && event.altKey && this.view.queue.length) {
        event.preventDefault();
        this.takeBack(this.view.queue[this.view.queue.length - 1]);
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        if (!at("completions").hidden) this.closeCompletions();
        else if (this.view.isRunning) this.stop();
      } else if (event.altKey && event.key.toLowerCase() === "n") {
        event.preventDefault();
        this.newSession();
      } else if (event.key === "?" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) at("keys").showModal();
    });
    at("transcript").addEventListener("click", ({ target }) => {
      const details = target.closest("summary") && target.closest("details");
      if (details) details.dataset.touched = "1";
    });
    at("stop").addEventListener("click", () => this.stop());
    at("steer").addEventListener("click", () => this.send(true));
    at("new-session").addEventListener("click", () => this.newSession());
    at("open-sessions").addEventListener("click", () => this.toggleSessions());
    at("search").addEventListener("input", () => {
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.listSessions(), 200);
    });
    for (const name of ["model", "thinking", "mode"]) at(name).addEventListener("change", ({ target }) => this.setting(name, target.value));
    at("close-keys").addEventListener("click", () => at("keys").close());
    at("open-new").addEventListener("click", () => at("open-now").close());
  }
}

(async () => {
  const given = await token();
  if (!given) {
    at("connection").textContent = "This page needs a link of `zk web`: each works once.";
    return;
  }
  const wire = new Wire(given, {
    open: (hello) => page.opened(hello),
    lost: () => { at("connection").textContent = "connecting again …"; },
    refused: (why) => { at("connection").textContent = why; },
    notified: (method, params) => page.notified(method, params),
  });
  const page = new Page(wire);
})();
