// Markdown of answers as elements. Everything of the text is text: no HTML of it is ever parsed.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]+)/;

function inline(text, into) {
  let rest = text;
  for (;;) {
    const found = INLINE.exec(rest);
    if (!found) break;
    into.append(rest.slice(0, found.index));
    const [whole, code, strong, em, label, href, url] = found;
    if (code !== undefined) into.append(make("code", {}, code));
    else if (strong !== undefined) into.append(make("strong", {}, strong));
    else if (em !== undefined) into.append(make("em", {}, em));
    else into.append(make("a", { href: href || url, rel: "noreferrer noopener", target: "_blank" }, label || url));
    rest = rest.slice(found.index + whole.length);
  }
  into.append(rest);
  return into;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

function markdown(text, into) {
  const lines = text.split("\n");
  let at = 0;
  const list = (pattern, tag) => {
    const items = make(tag, {});
    while (at < lines.length && pattern.test(lines[at])) {
      let item = lines[at++].replace(pattern, "");
      while (at < lines.length && /^\s{2,}\S/.test(lines[at]) && !/^\s*([-*+]|\d+[.)])\s/.test(lines[at])) {
        item += " " + lines[at++].trim();
      }
      items.append(inline(item, make("li", {})));
    }
    into.append(items);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*(\S*)/.exec(line);
    if (fence) {
      const body = [];
      at++;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) body.push(lines[at++]);
      at++;
      into.append(make("pre", { tabindex: "0" }, make("code", {}, body.join("\n"))));
    } else if (/^#{1,6}\s/.test(line)) {
      into.append(inline(line.replace(/^#+\s*/, ""), make("h3", {})));
      at++;
    } else if (/^\s*[-*+]\s/.test(line)) list(/^\s*[-*+]\s+/, "ul");
    else if (/^\s*\d+[.)]\s/.test(line)) list(/^\s*\d+[.)]\s+/, "ol");
    else if (/^\s*>/.test(line)) {
      const quoted = [];
      while (at < lines.length && /^\s*>/.test(lines[at])) quoted.push(lines[at++].replace(/^\s*>\s?/, ""));
      into.append(inline(quoted.join("\n"), make("blockquote", {})));
    } else if (line.includes("|") && /^\s*\|?\s*:?-{2,}/.test(lines[at + 1] || "")) {
      const row = (line, tag) => make("tr", {}, ...cells(line).map((cell) => inline(cell, make(tag, {}))));
      const body = make("tbody", {});
      const table = make("table", { tabindex: "0" }, make("thead", {}, row(line, "th")), body);
      at += 2;
      while (at < lines.length && lines[at].includes("|")) body.append(row(lines[at++], "td"));
      into.append(table);
    } else if (!line.trim()) at++;
    else {
      const words = [];
      while (at < lines.length && lines[at].trim() && !/^\s*(```|~~~|#{1,6}\s|>|[-*+]\s|\d+[.)]\s)/.test(lines[at])) {
        words.push(lines[at++]);
      }
      if (!words.length) words.push(lines[at++]);
      into.append(inline(words.join("\n"), make("p", {})));
    }
  }
  return into;
}
