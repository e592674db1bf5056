"use strict";
// Tables of class "sortable": a click on a heading sorts, a field above filters. Both only move
// and hide rows that are there; without this script the page shows them all.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const order = (row, at) => {
    const cell = row.cells[at];
    if (cell.dataset.order === undefined) return cell.textContent.toLowerCase();
    return cell.dataset.order === "" ? null : Number(cell.dataset.order);
  };
  headings.forEach((heading, at) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const keyed = [...body.rows].map((row) => [order(row, at), row]);
      keyed.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (a < b ? -1 : a > b ? 1 : 0);
      });
      body.append(...keyed.map(([, row]) => row));
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    });
  });
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("output");
  const tell = (shown) => { count.textContent = `${shown} of ${body.rows.length} rows`; };
  field.type = "search";
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    tell(shown);
  });
  tell(body.rows.length);
  label.append("Show rows that contain ", field, count);
  table.parentElement.before(label);
}
