// Refreshes the numbers in place and filters tables. The page is complete without it.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const refresh = byId("refresh");
  const interval = byId("interval");
  const refreshed = byId("refreshed");
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;

  // A browser may forbid storage; then the choice lasts as long as the page.
  const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* not kept */ } };
  const recall = (key) => { try { return localStorage.getItem(key); } catch { return null; } };

  const filters = [
    [byId("filter-tables"), ".ranking tbody tr:not(.rest):not(.total)"],
    [byId("filter-variables"), "#rows-variables tbody tr"],
  ];
  const applyFilters = () => {
    for (const [input, rows] of filters) {
      if (!input) continue;
      const wanted = input.value.trim().toLowerCase();
      for (const row of document.querySelectorAll(rows)) {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      }
    }
  };
  for (const [input] of filters) if (input) input.addEventListener("input", applyFilters);

  // Only the parts with numbers are replaced: what is typed, focused or scrolled elsewhere stays.
  const replaceNumbers = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const selection = document.getSelection();
    for (const part of document.querySelectorAll("[data-live]")) {
      const twin = fresh.getElementById(part.id);
      const selected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
      if (twin && !selected) part.replaceChildren(...twin.childNodes);
    }
    applyFilters();
  };

  let timer = 0;
  const say = (text, failed) => {
    refreshed.textContent = text;
    refreshed.classList.toggle("failed", failed);
  };
  const update = async () => {
    try {
      const reply = await fetch(location.pathname + ringOnly(), { headers: { Accept: "text/html" } });
      if (!reply.ok) throw new Error(String(reply.status));
      replaceNumbers(await reply.text());
      say("", false);
      document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates || 0) + 1;
    } catch {
      say("No answer, numbers are old", true);
    }
    schedule();
  };
  const ringOnly = () => {
    const ring = new URLSearchParams(location.search).get("ring");
    return ring ? "?ring=" + encodeURIComponent(ring) : "";
  };
  // Each request is an entry in the log messages: never more often than every 5 seconds, never while hidden.
  const schedule = () => {
    clearTimeout(timer);
    if (!refresh.checked || document.hidden) return;
    timer = setTimeout(update, 1000 * Math.max(5, Number(interval.value) || 10));
  };

  if (recall("refresh") === "off") refresh.checked = false;
  const kept = recall("interval");
  if ([...interval.options].some((option) => option.value === kept)) interval.value = kept;
  refresh.addEventListener("change", () => {
    remember("refresh", refresh.checked ? "on" : "off");
    say(refresh.checked ? "" : "Refresh is off", false);
    schedule();
  });
  interval.addEventListener("change", () => { remember("interval", interval.value); schedule(); });
  document.addEventListener("visibilitychange", schedule);
  refresh.form.addEventListener("submit", (event) => event.preventDefault());
  schedule();
})();
