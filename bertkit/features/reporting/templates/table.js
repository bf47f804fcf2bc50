"use strict";
// Sorts tables by their headings and filters the errors; without it the page can be read as it is.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const given = cell.dataset.value;
    return given === undefined ? cell.textContent.trim().toLowerCase() : given === "" ? -Infinity : Number(given);
  };
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const rows = [...body.rows];
      const numeric = rows.length > 0 && typeof value(rows[0], column) === "number";
      const before = heading.getAttribute("aria-sort");
      const descending = before === null ? numeric : before === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      rows.sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        const areTexts = typeof x === "string" && typeof y === "string"; // which may hold numbers, as 9–10 words
        return sign * (areTexts ? x.localeCompare(y, undefined, { numeric: true }) : x < y ? -1 : x > y ? 1 : 0);
      });
      body.append(...rows);
    });
  });
  if (!("filter" in table.dataset)) continue;
  const controls = document.createElement("div");
  controls.className = "controls";
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Filter by text or label";
  search.setAttribute("aria-label", "Filter the errors by text or label");
  const count = document.createElement("output");
  const suspects = document.createElement("input");
  suspects.type = "checkbox";
  const label = document.createElement("label");
  label.append(suspects, " suspected labels only");
  controls.append(search);
  if (body.querySelector("tr.suspect")) controls.append(label);
  controls.append(count);
  table.parentElement.before(controls);
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      const hit = row.textContent.toLowerCase().includes(wanted) && (!suspects.checked || row.classList.contains("suspect"));
      row.hidden = !hit;
      shown += hit ? 1 : 0;
    }
    count.textContent = `${shown} of ${body.rows.length}`;
  };
  search.addEventListener("input", apply);
  suspects.addEventListener("change", apply);
  apply();
}
