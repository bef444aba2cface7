// Elements, and how they are written to.

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Writes only what is new, so that whoever reads there, by eye or by ear, is not disturbed. */
export function write(into, text) {
  if (into.textContent !== text) into.textContent = text;
}

/** The rows of a table, of which the first cell of each is its head. */
export function writeRows(body, rows) {
  while (body.rows.length > rows.length) body.lastElementChild.remove();
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.appendChild(document.createElement("tr"));
    cells.forEach((text, place) => {
      const cell =
        row.cells[place] ??
        row.appendChild(place === 0 ? element("th", { scope: "row" }) : document.createElement("td"));
      write(cell, text);
    });
  });
}
