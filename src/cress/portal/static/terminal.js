// A terminal in a task. What is typed goes over a WebSocket to the portal, which passes it on to the task.
"use strict";

(() => {
  // Most bytes of one message; a long paste is sent in pieces.
  const PIECE = 16384;
  const box = document.getElementById("terminal");
  const form = document.getElementById("terminal-form");
  const task = document.getElementById("terminal-task");
  const command = document.getElementById("terminal-command");
  const reader = document.getElementById("terminal-reader");
  const state = document.getElementById("terminal-state");
  const encoder = new TextEncoder();
  let terminal = null;
  let fit = null;
  let socket = null;

  // The library makes style elements. The policy of this page allows those that have its nonce.
  const create = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const made = create(name, options);
    if (String(name).toLowerCase() === "style") made.nonce = box.dataset.nonce;
    return made;
  };

  function say(text, bad) {
    const words = document.createElement("span");
    words.textContent = text;
    if (bad) words.className = "bad";
    state.replaceChildren(words);
    state.dataset.said = text;
  }

  function send(what) { if (socket && socket.readyState === WebSocket.OPEN) socket.send(what); }

  function type(text) {
    const bytes = encoder.encode(text);
    for (let at = 0; at < bytes.length; at += PIECE) send(bytes.slice(at, at + PIECE));
  }

  function over(news) {
    box.dataset.over = "1";
    if (news.code === 0) say("The command has ended.");
    else if (news.code !== null && news.code !== undefined) say(`The command has ended with code ${news.code}. ${news.why || ""}`.trim());
    else say(news.why || "The command was ended.", true);
  }

  function start() {
    if (socket) { socket.onclose = null; socket.onmessage = null; socket.close(); }
    if (terminal) terminal.dispose();
    delete box.dataset.over;
    terminal = new Terminal({ cursorBlink: true, fontSize: 14, scrollback: 5000, screenReaderMode: reader.checked, theme: { background: "#0e1411", foreground: "#dfe8e2" } });
    fit = new FitAddon.FitAddon();
    terminal.loadAddon(fit);
    terminal.open(box);
    fit.fit();
    terminal.attachCustomKeyEventHandler((event) => {
      if (event.key === "Escape" && event.shiftKey) { terminal.blur(); command.focus(); return false; }
      return true;
    });
    const address = new URL(`/jobs/${box.dataset.job}/terminal/socket?task=${encodeURIComponent(task.value || 0)}`, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    say("connecting …");
    const mine = socket = new WebSocket(address);
    mine.binaryType = "arraybuffer";
    let ended = false;
    mine.onopen = () => {
      mine.send(JSON.stringify({ csrf: document.body.dataset.csrf, size: [terminal.rows, terminal.cols], command: command.value }));
      say("connected");
      terminal.focus();
    };
    mine.onmessage = (event) => {
      if (typeof event.data === "string") { ended = true; over(JSON.parse(event.data)); return; }
      const bytes = new Uint8Array(event.data);
      terminal.write(bytes, () => send(JSON.stringify({ drawn: bytes.length })));
    };
    mine.onclose = () => { if (!ended) over({ code: null, why: "The connection to the portal broke, and the command was ended. Start begins another one." }); };
    terminal.onData(type);
    terminal.onBinary((text) => send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    terminal.onResize(({ rows, cols }) => send(JSON.stringify({ size: [rows, cols] })));
  }

  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => fit && fit.fit(), 100); });
  form.addEventListener("submit", (event) => { event.preventDefault(); start(); });
  start();
})();
