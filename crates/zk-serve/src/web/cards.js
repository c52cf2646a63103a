// Questions, as cards. A card takes no answer in its first half second, and Enter alone never answers one: it works on a
// choice that has the focus, which only a key or a click gives.
const DEAF_MS = 500;

function choicesOf(card) {
  const question = card.question;
  if (card.approval) {
    return card.approval.choices.filter((choice) => choice.key !== "w")
      .map((choice) => ({ text: choice.text, note: choice.allows, answer: choice.answer, isRare: !choice.is_row }));
  }
  const no = { text: "No", answer: { answer: "no", message: null } };
  switch (question.ask) {
    case "confirm": return [{ text: "Yes", answer: { answer: "once" } }, no];
    case "trust": return [{ text: "Trust it exactly as it is", answer: { answer: "once" } }, { ...no, text: "Ignore it" }];
    case "select": return question.options.map((text, index) =>
      ({ text, note: (question.descriptions || [])[index], answer: { answer: "choice", index } }));
    default: return [];
  }
}

function titleOf(card) {
  if (card.approval) return card.approval.title;
  return card.question.text || "A question";
}

function partElement(part) {
  const lines = part.kind === "diff" ? diffLines(part.lines) : make("code", {}, part.lines.join("\n"));
  return make("div", { class: "part", tabindex: "0" }, part.heading ? make("p", { class: "dim" }, part.heading) : "", make("pre", {}, lines));
}

function cardElement(card, reply) {
  const born = performance.now();
  const answer = (value) => {
    if (performance.now() - born < DEAF_MS) return;
    reply(card, value);
  };
  const question = card.question;
  const title = make("h2", { tabindex: "-1", id: `card-title-${card.id}` }, titleOf(card));
  const isDanger = card.approval && card.approval.kind === "outside";
  const element = make("section", { class: isDanger ? "card danger" : "card", "aria-labelledby": title.id, id: `card-${card.id}` });
  if (card.agent) element.append(make("p", { class: "dim" }, `asked by ${card.agent.name}`));
  element.append(title);
  if (card.approval) {
    element.append(...card.approval.parts.map(partElement));
    for (const remark of card.approval.remarks || []) element.append(make("p", { class: "dim" }, remark));
    if ((card.approval.reasons || []).length) {
      element.append(make("details", {}, make("summary", {}, "Why this is asked"),
        ...card.approval.reasons.map((reason) => make("p", { class: "dim" }, reason))));
    }
  } else if (question.ask === "trust") {
    element.append(partElement({ kind: "text", lines: question.items }));
    if ((question.details || []).length) {
      element.append(make("details", {}, make("summary", {}, "Exactly"), partElement({ kind: "text", lines: question.details })));
    }
  } else if (question.preview) {
    element.append(partElement({ kind: "text", lines: previewLines(question.preview) }));
  }
  const choices = make("div", { class: "choices" });
  const rare = make("details", {}, make("summary", {}, "More choices"));
  for (const choice of choicesOf(card)) {
    const button = make("button", { type: "button", onclick: () => answer(choice.answer) }, choice.text,
      choice.note ? make("small", {}, choice.note) : "");
    (choice.isRare ? rare : choices).append(button);
  }
  if (rare.children.length > 1) choices.append(rare);
  choices.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...choices.querySelectorAll("button")].filter((button) => button.offsetParent);
    const next = all.indexOf(document.activeElement) + step;
    all[(next + all.length) % all.length].focus();
  });
  title.addEventListener("keydown", (event) => {
    const first = choices.querySelector("button");
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
  });
  element.append(choices);
  if (card.approval || question.ask === "input" || question.accepts_words) {
    const label = card.approval ? "Or: no, and what to do instead" : "Your own words";
    const words = make("input", { type: "text" });
    const send = () => {
      const text = words.value.trim();
      if (text) answer(card.approval ? { answer: "no", message: text } : { answer: "text", text });
    };
    words.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); send(); } });
    element.append(make("label", { class: "field" }, label, words), make("button", { type: "button", onclick: send }, "Send words"));
  }
  return element;
}

function previewLines(preview) {
  if (preview.text !== undefined) return preview.text.split("\n");
  if (preview.diff !== undefined) return preview.diff.split("\n");
  return preview.lines || [JSON.stringify(preview, null, 1)];
}
