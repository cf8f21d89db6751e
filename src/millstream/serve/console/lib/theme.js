// Sets the colours before the first paint. A classic script: modules run after the page is parsed.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("millstream.theme");
  } catch {
    // The browser keeps no data for this page.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
