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

  function draw() {
    waiting = false;
    const word = search.value;
    if (!word) {
      // Only what is new is added, so that a long log stays fast.
      if (drawn === 0) box.textContent = "";
      box.append(text.slice(drawn));
      drawn = text.length;
      found.textContent = "";
    } else {
      drawn = 0;
      const lower = word.toLowerCase();
      const lines = text.split("\n");
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
