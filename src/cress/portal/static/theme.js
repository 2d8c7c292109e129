// Runs before the first paint, so that the page never flashes in the other theme.
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
