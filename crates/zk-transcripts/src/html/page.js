"use strict";
(() => {
  const root = document.documentElement, $ = (id) => document.getElementById(id);
  const talk = $("talk"), input = $("find"), hits = $("hits"), fold = $("fold"), theme = $("theme");
  const folds = () => [...talk.querySelectorAll("details")];

  // Light or dark: as the system has it, until a person chooses.
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("zk-theme", value);
      return localStorage.getItem("zk-theme");
    } catch { return null; }
  };
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  const switchTheme = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
  };
  theme.addEventListener("click", switchTheme);

  const label = () => { fold.textContent = folds().some((part) => !part.open) ? "Unfold all" : "Fold all"; };
  const foldAll = () => {
    const open = folds().some((part) => !part.open);
    folds().forEach((part) => { part.open = open; });
    label();
  };
  fold.addEventListener("click", foldAll);
  talk.addEventListener("toggle", label, true);
  label();
  if (folds().length === 0) fold.hidden = true;
  addEventListener("beforeprint", () => folds().forEach((part) => { part.open = true; }));

  const reveal = (node) => {
    for (let part = node.parentElement; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
  };
  const follow = () => {
    const aim = location.hash.length > 1 && $(location.hash.slice(1));
    if (aim) reveal(aim);
  };
  addEventListener("hashchange", follow);
  follow();

  // Search: matches are marked, at most so many.
  const MOST = 2000;
  let found = [], at = -1, timer = 0;
  const clear = () => {
    for (const mark of talk.querySelectorAll("mark")) {
      const parent = mark.parentNode;
      mark.replaceWith(...mark.childNodes);
      parent.normalize();
    }
    found = [];
    at = -1;
  };
  const go = (step) => {
    if (!found.length) return;
    if (found[at]) found[at].classList.remove("now");
    at = (at + step + found.length) % found.length;
    const mark = found[at];
    mark.classList.add("now");
    reveal(mark);
    mark.scrollIntoView({ block: "center" });
    hits.textContent = `${at + 1} of ${found.length}${found.length === MOST ? "+" : ""}`;
  };
  const search = () => {
    clear();
    const wanted = input.value.trim().toLowerCase();
    hits.textContent = "";
    if (wanted.length < 2) return;
    const walker = document.createTreeWalker(talk, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      let rest = text, place = rest.data.toLowerCase().indexOf(wanted);
      while (place >= 0 && found.length < MOST && place + wanted.length <= rest.data.length) {
        const hit = rest.splitText(place);
        rest = hit.splitText(wanted.length);
        const mark = document.createElement("mark");
        hit.replaceWith(mark);
        mark.append(hit);
        found.push(mark);
        place = rest.data.toLowerCase().indexOf(wanted);
      }
    }
    if (found.length) go(1); else hits.textContent = "none";
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 180); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { input.value = ""; search(); input.blur(); }
  });

  const prompts = [...talk.querySelectorAll(":scope > .user")];
  const present = () => prompts.findLastIndex((prompt) => prompt.getBoundingClientRect().top < 90);
  const jump = (step) => {
    const now = present(), prompt = prompts[Math.max(0, now + step)];
    if (prompt) prompt.scrollIntoView({ block: "start" });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === input) return;
    const keys = { "/": () => input.focus(), j: () => jump(1), k: () => jump(-1), f: foldAll, t: switchTheme };
    if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
  });

  const links = [...document.querySelectorAll(".toc a")];
  const note = () => {
    const now = present();
    links.forEach((link, index) => link.classList.toggle("now", index === now));
  };
  if (links.length) {
    addEventListener("scroll", note, { passive: true });
    note();
  }
})();
