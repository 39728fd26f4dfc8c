// Refreshes the numbers in place and filters tables. The page is complete without it.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const refresh = byId("refresh");
  const interval = byId("interval");
  const refreshed = byId("refreshed");
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
  for (const part of document.querySelectorAll(".unscripted")) part.hidden = true;

  // A browser may forbid storage; then the choice lasts as long as the page.
  const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* not kept */ } };
  const recall = (key) => { try { return localStorage.getItem(key); } catch { return null; } };

  // Variables are all on the page; entries of rings are searched by the server, which has more than the page shows.
  const variables = byId("filter-variables");
  const applyFilter = () => {
    if (!variables) return;
    const wanted = variables.value.trim().toLowerCase();
    for (const row of document.querySelectorAll("#rows-variables tbody tr")) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
    }
  };
  if (variables) variables.addEventListener("input", applyFilter);
  const search = byId("filter-tables");
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => update(), 400);
  });
  byId("filter-form").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    update();
  });

  // Only the parts with numbers are replaced: what is typed, focused or scrolled elsewhere stays.
  const replaceNumbers = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const selection = document.getSelection();
    for (const part of document.querySelectorAll("[data-live]")) {
      const twin = fresh.getElementById(part.id);
      const selected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
      if (!twin || selected) continue;
      const folds = [...part.querySelectorAll("details")];
      const focused = folds.findIndex((fold) => fold.contains(document.activeElement));
      part.replaceChildren(...twin.childNodes);
      part.querySelectorAll("details").forEach((fold, n) => {
        fold.open = folds[n]?.open ?? fold.open;
        if (n === focused) fold.querySelector("summary").focus();
      });
    }
    document.title = fresh.title;
    applyFilter();
  };

  // The state on the page is that of the last reply: without one it would still say that all is well.
  let seen = new Date();
  const showOutage = () => {
    const when = seen.toISOString().replace(/\.\d+Z$/, "Z");
    const notice = document.createElement("p");
    notice.className = "state bad";
    notice.setAttribute("role", "alert");
    const headline = document.createElement("strong");
    headline.textContent = "No response from the server";
    notice.append(headline, ` All numbers are from ${when}.`);
    byId("state").replaceChildren(notice);
    document.title = document.title.replace(/^.*? – /, "No response – ");
    say("", false);
  };

  let timer = 0;
  const say = (text, failed) => {
    refreshed.textContent = text;
    refreshed.classList.toggle("failed", failed);
  };
  const update = async () => {
    try {
      const wanted = parameters();
      const reply = await fetch(location.origin + location.pathname + wanted, { headers: { Accept: "text/html" } });
      if (!reply.ok) throw new Error(String(reply.status));
      const text = await reply.text();
      // Text typed since the request was sent gets its own reply.
      if (wanted === parameters()) replaceNumbers(text);
      say("", false);
      document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates || 0) + 1;
      seen = new Date();
    } catch {
      showOutage();
    }
    schedule();
  };
  const parameters = () => {
    const wanted = new URLSearchParams();
    const ring = new URLSearchParams(location.search).get("ring");
    if (ring) wanted.set("ring", ring);
    if (search.value.trim()) wanted.set("filter", search.value.trim());
    return wanted.size ? "?" + wanted : "";
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
  schedule();
})();
