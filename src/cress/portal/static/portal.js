// Keeps pages up to date, shows times in the zone of the viewer, asks before what cannot be undone.
"use strict";

const zoned = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

// The marks of an axis: times, with seconds where the marks are close, and with the day where it is not that of the mark before.
function showMarks(marks, today) {
  let before = today;
  for (const mark of marks) {
    const at = new Date(1000 * Number(mark.dataset.at));
    const time = mark.dataset.step < 60 ? clock.format(at) : minutes.format(at);
    const its = day.format(at);
    mark.textContent = its === before ? time : `${its.slice(5)} ${time}`;
    before = its;
  }
}

function showTimes(root) {
  const today = day.format(new Date());
  for (const drawing of root.querySelectorAll("svg.timeline")) showMarks(drawing.querySelectorAll("text[data-at]"), today);
  for (const element of root.querySelectorAll("time[data-at]")) {
    const at = new Date(1000 * Number(element.dataset.at));
    const short = day.format(at) === today;
    element.textContent = short ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
    element.title = `${zoned.format(at)} ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  }
}

// Whether the viewer has changed a field, and not sent it yet.
function isChanged(field) {
  if (field.tagName === "SELECT") return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return "defaultValue" in field && field.type !== "hidden" && field.value !== field.defaultValue;
}

// --- live -------------------------------------------------------------------------------------------------------------

let loading = false;
let again = false;

async function refresh() {
  // A page that could not be made has nothing to keep.
  if (document.getElementById("page-failed")) { location.reload(); return; }
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Refresh": "1" } });
    if (answer.status === 401) { location.reload(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("live");
    const present = document.getElementById("live");
    if (!answer.ok && answer.status !== 404) return;
    document.body.dataset.made = page.body.dataset.made || "";
    if (next && present) {
      showTimes(next);
      // What the viewer has opened, chosen or typed stays.
      Idiomorph.morph(present, next, {
        morphStyle: "outerHTML",
        ignoreActiveValue: true,
        callbacks: {
          beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
          beforeNodeMorphed: (node) => !(node.dataset && "keep" in node.dataset) && !(node.matches && node.matches("input, select, textarea") && isChanged(node)),
        },
      });
      document.dispatchEvent(new Event("refreshed"));
      soon();
    }
  } catch (error) {
    showAway("The portal does not answer.");
  } finally {
    loading = false;
    if (again) { again = false; refresh(); }
  }
}

// A part of the page that takes longer is not there yet: the page is read again.
function soon() {
  const live = document.getElementById("live");
  if (live && live.dataset.soon) setTimeout(() => { if (!document.hidden) refresh(); }, 700);
}

function showAway(why) {
  const banner = document.getElementById("away");
  const since = banner.dataset.since || clock.format(new Date());
  banner.dataset.since = since;
  banner.textContent = `${why} Shown is what was known at ${since}. Running tasks go on; this page tries again by itself.`;
  banner.hidden = false;
}

function showBack() {
  const banner = document.getElementById("away");
  delete banner.dataset.since;
  banner.hidden = true;
}

let source = null;

function follow() {
  const about = document.body.dataset.live;
  if (about === undefined || source) return;
  const pause = document.body.dataset.pause || 1;
  const made = encodeURIComponent(document.body.dataset.made || "");
  source = new EventSource(`/live?about=${encodeURIComponent(about)}&pause=${pause}&made=${made}`);
  source.addEventListener("changed", refresh);
  source.addEventListener("away", (event) => showAway(`The center cannot be reached: ${JSON.parse(event.data).why}.`));
  source.addEventListener("back", () => { showBack(); refresh(); });
  source.addEventListener("alive", () => { document.body.dataset.following = "1"; });
  source.addEventListener("open", () => {
    if (document.body.dataset.lost) { delete document.body.dataset.lost; showBack(); refresh(); }
  });
  source.addEventListener("error", () => {
    document.body.dataset.lost = "1";
    showAway("The portal does not answer.");
    // The portal answers, and does not know this session any more: `refresh` leads to the page for signing in.
    if (source.readyState === EventSource.CLOSED) { source = null; refresh(); setTimeout(follow, 3000); }
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { if (source) source.close(); source = null; } else { follow(); if (document.body.dataset.live !== undefined) refresh(); }
});

// --- theme, questions ---------------------------------------------------------------------------------------------------

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.addEventListener("click", (event) => {
  if (event.target.closest("#theme")) {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    document.dispatchEvent(new Event("refreshed"));
  }
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.ask;
  if (question && !confirm(question)) { event.preventDefault(); return; }
  if (event.target.getAttribute("action") === "/logout") forgetDrafts();
  noteSent(event.target);
});

// --- filters ------------------------------------------------------------------------------------------------------------

// With the keyboard, a value is passed on the way to another one: only the button filters then.
let keyed = null;
document.addEventListener("keydown", (event) => { keyed = event.target; });
document.addEventListener("pointerdown", () => { keyed = null; });
document.addEventListener("change", (event) => {
  if (event.target.matches(".filters select") && keyed !== event.target) event.target.form.requestSubmit();
});

// The address has only the filters that are set.
document.addEventListener("formdata", (event) => {
  if (!event.target.matches(".filters[method=get]")) return;
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});

// After the back button, browsers fill in what was chosen later; the rows are those of the address.
addEventListener("pageshow", () => { for (const form of document.querySelectorAll(".filters[method=get]")) form.reset(); });

// --- drafts -------------------------------------------------------------------------------------------------------------

// What is typed into a form with `data-draft` outlives a session that ends, a portal that stops and a page that is left.
// The page after a change that was made forgets it, and so does signing out. A form or link that ends what such a form
// began has `data-forgets`.
const DRAFT = "draft:";
// The drafts that were sent since the form was opened: an answer has another address than its form.
const SENT = "sent";
const TYPED = "textarea[name], select[name], input[name]:not([type=hidden], [type=checkbox])";

function keepDraft(form) {
  // The answer to a form has the values that were sent, as if nothing had been typed.
  const typed = "given" in form.dataset ? () => true : isChanged;
  const fields = [...form.querySelectorAll(TYPED)].filter(typed).map((field) => [field.name, field.value]);
  sessionStorage.setItem(DRAFT + form.dataset.draft, JSON.stringify(fields));
}

function forgetDrafts() {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(DRAFT)) sessionStorage.removeItem(key);
}

function sentDrafts() { return JSON.parse(sessionStorage.getItem(SENT) || "[]"); }

function noteSent(form) {
  const key = form.dataset.draft ?? form.dataset.forgets;
  sessionStorage.setItem(SENT, JSON.stringify(key === undefined ? [] : [...sentDrafts(), key]));
}

function forgetSent() {
  for (const key of sentDrafts()) sessionStorage.removeItem(DRAFT + key);
}

function restoreDraft(form) {
  const kept = new Map(JSON.parse(sessionStorage.getItem(DRAFT + form.dataset.draft) || "[]"));
  let changed = false;
  // The answer to a form has the text that was sent.
  if (!("given" in form.dataset)) for (const field of form.querySelectorAll(TYPED)) {
    if (!kept.has(field.name) || kept.get(field.name) === field.value) continue;
    field.value = kept.get(field.name);
    changed = true;
  }
  const note = form.querySelector(".draft");
  note.hidden = !changed;
  note.querySelector("button").addEventListener("click", () => { sessionStorage.removeItem(DRAFT + form.dataset.draft); location.assign(form.dataset.draft); });
}

if (document.querySelector(".told")) forgetSent();
if (!document.querySelector("[data-given]")) sessionStorage.removeItem(SENT);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-forgets]");
  if (link) { sessionStorage.removeItem(DRAFT + link.dataset.forgets); forgetSent(); }
});
for (const form of document.querySelectorAll("form[data-draft]")) {
  restoreDraft(form);
  form.addEventListener("input", () => keepDraft(form));
  form.addEventListener("submit", () => keepDraft(form));
}

// --- drawings -----------------------------------------------------------------------------------------------------------

// Each drawing is one stop of the Tab key: the arrow keys move between its links.
document.addEventListener("keydown", (event) => {
  const here = event.target.closest("svg.timeline a");
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!here || !step || event.ctrlKey || event.altKey || event.metaKey) return;
  const links = [...here.closest("svg").querySelectorAll("a")];
  const next = links[links.indexOf(here) + step];
  event.preventDefault();
  if (next) next.focus();
});


showTimes(document);
// Where a drawing is wider than the window, the present is in sight.
for (const now of document.querySelectorAll("svg.timeline line.now")) {
  const box = now.closest(".scroll");
  box.scrollLeft = now.x1.baseVal.value / 1000 * box.scrollWidth - 0.7 * box.clientWidth;
}
// On a phone the navigation is wider than the window: the entry of this page is in sight.
for (const here of document.querySelectorAll("nav [aria-current]")) {
  const nav = here.closest("nav");
  if (nav.scrollWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}
follow();
soon();
// Durations and "in 5 minutes" change without an event.
if (document.body.dataset.live !== undefined) setInterval(() => { if (!document.hidden && source) refresh(); }, 15000);
