/* Keys of the console, and questions before some actions. Pages work without it. */
(function () {
  "use strict";
  let awaiting = null;

  function isTyping(target) {
    return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
  }

  function moveRow(step) {
    const links = Array.from(document.querySelectorAll("table.rows tbody tr")).map((row) => row.querySelector("a")).filter(Boolean);
    const at = links.indexOf(document.activeElement);
    const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  }

  function fold(isOpen) {
    document.querySelectorAll(".xml details").forEach((each, number) => { each.open = isOpen || number === 0; });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (isTyping(event.target)) {
      if (event.key === "Escape") { event.target.blur(); }
      return;
    }
    if (awaiting === "g") {
      awaiting = null;
      const section = document.querySelector('nav.sections a[data-key="' + CSS.escape(event.key) + '"]');
      if (section) { event.preventDefault(); section.click(); }
      return;
    }
    switch (event.key) {
      case "g": awaiting = "g"; window.setTimeout(() => { awaiting = null; }, 1500); break;
      case "/": { const box = document.getElementById("q"); if (box) { event.preventDefault(); box.focus(); box.select(); } break; }
      case "?": window.location.assign("/console/help"); break;
      case "j": moveRow(1); break;
      case "k": moveRow(-1); break;
      case "n": { const next = document.querySelector('a[rel="next"]'); if (next) { next.click(); } break; }
      case "[": fold(false); break;
      case "]": fold(true); break;
    }
  });

  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-confirm]") : null;
    if (button && !window.confirm(button.dataset.confirm)) { event.preventDefault(); }
  });
})();
