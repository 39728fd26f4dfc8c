// Comfort for people with scripts: copy buttons, more rows without a request, filters while typing. The pages are complete without it.
"use strict";
(() => {
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const said = button.parentElement.querySelector("[role=status]");
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        said.textContent = "Copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(document.getElementById(button.dataset.copy));
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        said.textContent = "Selected: copy it with the keyboard";
      }
    });
  }

  // The rows of the page that match what is typed; Enter searches all of them on the server.
  for (const input of document.querySelectorAll("[data-filter]")) {
    const table = document.getElementById(input.dataset.filter);
    if (!table) continue;
    const given = input.value;
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = wanted !== given.toLowerCase() && !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }

  const rows = document.getElementById("rows");
  const more = document.getElementById("more-rows");
  if (rows && more) {
    more.addEventListener("click", (event) => {
      event.preventDefault();
      const last = rows.lastElementChild;
      const row = last.cloneNode(true);
      const at = rows.children.length;
      const text = row.querySelector("input[name=content]");
      text.value = "";
      text.setAttribute("aria-label", `Data of record ${at + 1}`);
      const box = row.querySelector("input[name=disabled]");
      if (box) {
        box.checked = false;
        box.value = at;
        box.parentElement.querySelector(".quiet").textContent = ` record ${at + 1}`;
      }
      rows.append(row);
      text.focus();
    });
  }

  // The form of the data follows the type.
  const type = document.getElementById("type");
  const hint = document.getElementById("data-hint");
  if (type && hint && !type.readOnly) {
    type.addEventListener("input", () => {
      const wanted = type.value.trim().toUpperCase();
      const known = [...document.querySelectorAll("#types option")].find((option) => option.value === wanted);
      if (!known) {
        hint.textContent = "One record per row, as in a zone file; names with their final dot.";
        return;
      }
      const code = document.createElement("code");
      code.textContent = known.dataset.hint;
      hint.replaceChildren("As in ", code, "; names with their final dot.");
    });
  }
})();
