// The live log of a task: follows the stream, searches in what has arrived.
"use strict";

(() => {
  // Most characters that are kept; the first ones go.
  const MOST = 4_000_000;
  const box = document.getElementById("log");
  const search = document.getElementById("log-search");
  const only = document.getElementById("log-only");
  const end = document.getElementById("log-end");
  const found = document.getElementById("log-found");
  const note = document.getElementById("log-note");
  const state = document.getElementById("log-state");
  let text = "";
  let drawn = 0;
  let waiting = false;
  // The line whose end has not arrived yet.
  const last = document.createElement("span");

  // --- escapes ----------------------------------------------------------------------------------------------------------

  // Programs colour their output by escapes, and write progress over itself by carriage returns.
  // A title without an end ends with its line.
  const ESCAPE = /\x1b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
  // An escape whose end has not arrived yet.
  const OPEN = /\x1b(?:\[[0-9;:?]{0,40}[ -/]{0,4}|\][^\x07\x1b\n]{0,200}|[ -/]{0,4})?$/;
  let style = "";

  // Takes over what the numbers of an escape say: bold, and one of sixteen colours; all others are left out.
  function restyle(numbers) {
    const kept = new Set(style.split(" ").filter(Boolean));
    const drop = (start) => { for (const one of kept) if (one.startsWith(start)) kept.delete(one); };
    // A code with details after colons, such as a kind of underline, is no number and left out.
    const codes = numbers.split(";").map(Number);
    for (let i = 0; i < codes.length; i += 1) {
      const code = codes[i];
      if (code === 0) kept.clear();
      else if (code === 1) kept.add("bold");
      else if (code === 22) kept.delete("bold");
      else if (code === 39) drop("ink");
      else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4;
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) { drop("ink"); kept.add(`ink${code % 10}`); }
    }
    style = [...kept].join(" ");
  }

  // What a terminal would show of a line that was written over. The colours of what is gone still hold.
  function lastWritten(line) {
    let end = line.length;
    while (line[end - 1] === "\r") end -= 1;
    const from = line.lastIndexOf("\r", end - 1) + 1;
    return (line.slice(0, from).match(ESCAPE) || []).join("") + line.slice(from, end);
  }

  // The text without escapes, with its progress written over: as pairs of a style and a text.
  function pieces(raw) {
    const found = [];
    let from = 0;
    const add = (part) => { if (part) found.push([style, part]); };
    const whole = raw.includes("\r") ? raw.split("\n").map(lastWritten).join("\n") : raw;
    for (const match of whole.matchAll(ESCAPE)) {
      add(whole.slice(from, match.index));
      if (match[2] === "m") restyle(match[1]);
      from = match.index + match[0].length;
    }
    add(whole.slice(from));
    return found;
  }

  function element([kind, part]) {
    if (!kind) return part;
    const made = document.createElement("span");
    made.className = kind;
    made.textContent = part;
    return made;
  }

  // --- drawing ----------------------------------------------------------------------------------------------------------

  function draw() {
    waiting = false;
    const word = search.value;
    if (!word) {
      // Only new lines are added, so that a long log stays fast. The last one may still be written over.
      if (drawn === 0) { box.textContent = ""; style = ""; box.append(last); }
      const until = text.lastIndexOf("\n") + 1;
      if (until > drawn) {
        last.before(...pieces(text.slice(drawn, until)).map(element));
        drawn = until;
      }
      const before = style;
      last.replaceChildren(...pieces(text.slice(drawn).replace(OPEN, "")).map(element));
      style = before;
      found.textContent = "";
    } else {
      drawn = 0;
      const lower = word.toLowerCase();
      style = "";
      const lines = pieces(text).map((piece) => piece[1]).join("").split("\n");
      let hits = 0;
      const parts = [];
      for (const line of lines) {
        const low = line.toLowerCase();
        let at = low.indexOf(lower);
        if (at < 0) { if (!only.checked) parts.push(line + "\n"); continue; }
        hits += 1;
        let from = 0;
        while (at >= 0) {
          parts.push(line.slice(from, at));
          const mark = document.createElement("mark");
          mark.textContent = line.slice(at, at + word.length);
          parts.push(mark);
          from = at + word.length;
          at = low.indexOf(lower, from);
        }
        parts.push(line.slice(from) + "\n");
      }
      box.replaceChildren(...parts.slice(-50000));
      found.textContent = `${hits.toLocaleString()} line${hits === 1 ? "" : "s"}`;
    }
    if (end.checked) box.scrollTop = box.scrollHeight;
  }

  function later() { if (!waiting) { waiting = true; requestAnimationFrame(draw); } }

  function add(more) {
    note.hidden = true;
    text += more;
    if (text.length > MOST) { text = text.slice(-MOST / 2); drawn = 0; }
    later();
  }

  function follow() {
    const source = new EventSource(box.dataset.stream);
    text = ""; drawn = 0;
    source.addEventListener("text", (event) => add(JSON.parse(event.data).text));
    source.addEventListener("attempt", (event) => add(`${text && !text.endsWith("\n") ? "\n" : ""}--- attempt ${JSON.parse(event.data).attempt} ---\n`));
    source.addEventListener("note", (event) => { note.textContent = JSON.parse(event.data).text; note.hidden = false; });
    source.addEventListener("over", () => { source.close(); state.firstChild.textContent = text ? "the task is over; this is all" : note.hidden ? "the task has ended without output" : "nothing is shown"; });
    // The stream begins anew when it comes back.
    source.addEventListener("open", () => { text = ""; drawn = 0; box.textContent = ""; });
  }

  search.addEventListener("input", () => { drawn = 0; later(); });
  only.addEventListener("change", () => { drawn = 0; later(); });
  box.addEventListener("scroll", () => { end.checked = box.scrollTop + box.clientHeight >= box.scrollHeight - 4; });
  follow();
})();
