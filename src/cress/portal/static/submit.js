// Checks the text while it is typed; the fields beside it write lines of the text.
"use strict";

(() => {
  const text = document.getElementById("text");
  const verdict = document.getElementById("verdict");
  const form = document.getElementById("submit");
  let timer = 0;
  let number = 0;

  function element(name, content, kind) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    made.append(...[].concat(content));
    return made;
  }

  function show(answer) {
    if (answer.good) {
      const what = answer.count === 1 ? `${answer.names[0] || "the job"} can be submitted` : `${answer.count} jobs can be submitted`;
      verdict.replaceChildren(element("p", element("span", what, "badge good")), ...answer.notes.map((note) => element("p", note, "notice")));
      return;
    }
    const list = element("ul", answer.mistakes.map((mistake) => {
      const parts = [];
      if (mistake.line) {
        const link = element("a", `line ${mistake.line}`);
        link.href = "#text";
        link.dataset.line = mistake.line;
        parts.push(link, ": ");
      }
      if (mistake.field) parts.push(element("b", mistake.field), ": ");
      parts.push(mistake.what);
      if (mistake.hint) parts.push(" ", element("small", `(${mistake.hint})`));
      return element("li", parts, "bad");
    }), "mistakes");
    verdict.replaceChildren(list);
  }

  async function check() {
    const mine = ++number;
    if (!text.value.trim()) { verdict.replaceChildren(element("p", "Write a job, at least: command: echo hello")); return; }
    try {
      const answer = await fetch("/submit/check", {
        method: "POST",
        headers: { "X-CSRF": document.body.dataset.csrf, Accept: "application/json", "Content-Type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({ text: text.value }),
      });
      const found = await answer.json();
      if (mine !== number) return;
      if (answer.status === 401) { verdict.replaceChildren(element("p", "Your session has ended, so the text is not checked. Submit leads to the page for signing in; the text is kept.", "warning")); return; }
      if (answer.ok) show(found); else verdict.replaceChildren(element("p", found.message, "warning"));
    } catch (error) {
      if (mine === number) verdict.replaceChildren(element("p", "The portal does not answer; the text was not checked.", "warning"));
    }
  }

  function later() { clearTimeout(timer); timer = setTimeout(check, 250); }

  function goTo(line) {
    const lines = text.value.split("\n");
    const from = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    text.focus();
    text.setSelectionRange(from, from + (lines[line - 1] || "").length);
  }

  // Only the keys of the first job that stand at the left edge, one per line, are shared with the fields.
  function shared(key) { return new RegExp(`^(?:- )?${key}:[ \\t]*(.*)$`, "m"); }

  function fill() {
    for (const field of document.querySelectorAll("#fields [data-key]")) {
      if (field === document.activeElement) continue;
      const found = shared(field.dataset.key).exec(text.value);
      field.value = found ? found[1].replace(/^["'](.*)["']$/, "$1") : "";
    }
  }

  function quoted(value) { return /^[\w./<>, +=%-]*$/.test(value) && value.trim() === value ? value : JSON.stringify(value); }

  function write(field) {
    const { key } = field.dataset;
    const pattern = shared(key);
    const raw = key === "command" && field.value.startsWith("[");
    const line = field.value ? `${key}: ${raw ? field.value : quoted(field.value)}` : "";
    if (pattern.test(text.value)) {
      const lead = /^- /.test(pattern.exec(text.value)[0]) ? "- " : "";
      text.value = line || lead ? text.value.replace(pattern, () => lead + line) : text.value.replace(new RegExp(pattern.source + "\\n?", "m"), "");
    } else if (line) {
      text.value = `${text.value.replace(/\n*$/, "\n").replace(/^\n/, "")}${line}\n`;
    }
    later();
  }

  text.addEventListener("input", () => { later(); fill(); });
  document.getElementById("fields").addEventListener("input", (event) => write(event.target));
  verdict.addEventListener("click", (event) => {
    const link = event.target.closest("[data-line]");
    if (link) { event.preventDefault(); goTo(Number(link.dataset.line)); }
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); });
  fill();
  if (!verdict.querySelector(".mistakes")) check();
})();
