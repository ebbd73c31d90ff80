// Tables sort by the column whose head is pressed: numbers by value, the highest first, texts from A to Z; again turns it round.
// What has no value stays at the end either way, and equal rows keep their order.

"use strict";

const keyOf = (row, column, numeric) => {
  const cell = row.cells[column];
  if (!numeric) return cell.textContent.trim();
  return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
};

const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));

for (const table of document.querySelectorAll("table.sortable")) {
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("button")?.closest("th");
    if (!head) return;
    const numeric = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
    for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row, head.cellIndex, numeric), row]);
    const sign = order === "ascending" ? 1 : -1;
    rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  });
}
