(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)"), key = "scumble-theme";
  const kept = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem(key, theme); } catch { } };
  if (kept() === "light" || kept() === "dark") root.dataset.theme = kept();
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = root.dataset.theme ?? (system.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    keep(root.dataset.theme);
  });
})();
