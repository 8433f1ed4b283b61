// The theme that was chosen here before, set before anything is painted; and the button that changes it.
"use strict";
{
  const THEMES = ["system", "light", "dark"];
  const KEY = "slotreeve-theme";
  const read = () => {
    try {
      return THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system";
    } catch {
      return "system"; // storage is switched off
    }
  };
  const apply = (theme) => {
    if (theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = (theme) => {
      button.textContent = `Theme: ${theme}`;
    };
    label(read());
    button.hidden = false;
    button.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % THEMES.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // it holds for this page only
      }
      apply(next);
      label(next);
      document.dispatchEvent(new CustomEvent("themechange"));
    });
  });
}
