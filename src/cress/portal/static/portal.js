// Keeps pages up to date, shows times in the zone of the viewer, asks before what cannot be undone.
"use strict";

const zoned = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

function showTimes(root) {
  const today = day.format(new Date());
  for (const element of root.querySelectorAll("[data-at]")) {
    const at = new Date(1000 * Number(element.dataset.at));
    const short = element.dataset.clock || day.format(at) === today;
    element.textContent = short ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
    if (element.tagName === "TIME") element.title = `${zoned.format(at)} ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  }
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
          beforeNodeMorphed: (node) => !(node.dataset && "keep" in node.dataset),
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
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("change", (event) => {
  if (event.target.matches(".filters select")) event.target.form.requestSubmit();
});

showTimes(document);
// On a phone the navigation is wider than the window: the entry of this page is in sight.
for (const here of document.querySelectorAll("nav [aria-current]")) {
  const nav = here.closest("nav");
  if (nav.scrollWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}
follow();
soon();
// Durations and "in 5 minutes" change without an event.
if (document.body.dataset.live !== undefined) setInterval(() => { if (!document.hidden && source) refresh(); }, 15000);
