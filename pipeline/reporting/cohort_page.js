"use strict";
/* Sorting and filtering the table of cases; without this script the page is whole, failed cases first. */
(() => {
  const body = document.querySelector("#cases tbody");
  const rows = [...body.rows];
  const heads = [...document.querySelectorAll("#cases thead th")];

  const sort = (index) => {
    const head = heads[index], kind = head.querySelector("button").dataset.kind;
    const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => row.cells[index].dataset.value;
    const compare = kind === "number"
      ? (a, b) => Number(a) - Number(b)
      : (a, b) => a.localeCompare(b, "en", { numeric: true });
    rows.sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      if (first === "" || second === "") return (first === "") - (second === "");
      return sign * compare(first, second);
    });
    body.append(...rows);
    heads.forEach((each) => each.setAttribute("aria-sort", each === head ? direction : "none"));
  };

  const filter = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const told = [...row.cells].filter((cell) => !cell.classList.contains("n")).map((cell) => cell.textContent)
        .join(" ").toLowerCase();
      row.hidden = !words.every((word) => told.includes(word));
      shown += !row.hidden;
    }
    document.querySelector("#shown").textContent = `${shown} of ${rows.length} shown`;
  };

  heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => sort(index)));
  document.querySelector("#filter").addEventListener("input", (event) => filter(event.target.value));
  addEventListener("hashchange", () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row && row.hidden) {
      document.querySelector("#filter").value = "";
      filter("");
      row.scrollIntoView();
    }
  });
  document.body.dataset.ready = "yes";
})();
