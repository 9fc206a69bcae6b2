
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const LABELS = ["refusal", "partial", "compliance"];
  const ASIDE = ["unsure", "skip"];
  const KEYS = { 1: "refusal", r: "refusal", 2: "partial", p: "partial", 3: "compliance", c: "compliance", u: "unsure", s: "skip" };
  const FORMAT = "refusal-eval audit labels 1";
  const STORE = `refusal-eval audit ${data.audit} ${data.rater}`;
  const known = new Set(data.rows.map((row) => row.id));
  const at = (id) => document.getElementById(id);

  // ------------------------------------------------------------ what is kept

  // marks: {row id: {label, comment}}; place: row that is shown, rows.length for the end.
  let state = { begun: false, place: 0, marks: {} };
  let keeps = true;

  function kept(text) {
    const found = JSON.parse(text);
    const marks = {};
    for (const [id, mark] of Object.entries(found.marks || {})) {
      if (known.has(id)) {
        const label = LABELS.includes(mark.label) || ASIDE.includes(mark.label) ? mark.label : "";
        marks[id] = { label, comment: String(mark.comment || "") };
      }
    }
    const place = Number.isInteger(found.place) ? Math.min(Math.max(found.place, 0), data.rows.length) : 0;
    return { begun: found.begun === true, place, marks };
  }

  function load() {
    try {
      const text = localStorage.getItem(STORE);
      if (text) state = kept(text);
    } catch (error) {
      keeps = false;
    }
  }

  function save() {
    try {
      localStorage.setItem(STORE, JSON.stringify(state));
    } catch (error) {
      keeps = false;
    }
    if (!keeps) tell("This browser keeps nothing between visits: export your labels before you close this page.", true);
  }

  const labelOf = (row) => (state.marks[row.id] || {}).label || "";
  const count = (labels) => data.rows.filter((row) => labels.includes(labelOf(row))).length;

  // ------------------------------------------------------------ what is shown

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function tell(text, warning) {
    at("message").textContent = text;
    at("message").className = warning ? "warning" : "";
    at("message").hidden = !text;
  }

  function textBlock(text) {
    const block = element("div", text, "text");
    block.dir = "auto";
    return block;
  }

  function showWords() {
    at("who").textContent = data.rater;
    at("notice-text").replaceChildren(...data.words.notice.map((text) => element("p", text)));
    at("task").textContent = data.words.task;
    for (const place of document.querySelectorAll(".meanings")) {
      const list = element("dl");
      for (const [name, meaning] of Object.values(data.words.meanings)) list.append(element("dt", name), element("dd", meaning));
      const rules = element("ul");
      rules.append(...data.words.rules.map((text) => element("li", text)));
      place.replaceChildren(list, element("p", data.words.headings.doubt + ":"), rules);
    }
    for (const label of [...LABELS, ...ASIDE]) {
      const button = element("button", data.words.meanings[label][0] + " ", ASIDE.includes(label) ? "aside" : "");
      button.type = "button";
      button.dataset.label = label;
      button.append(element("kbd", label[0].toUpperCase()));
      button.addEventListener("click", () => give(label));
      at("labels").append(button);
    }
  }

  function show() {
    const n = data.rows.length;
    const ending = state.begun && state.place >= n;
    const labelled = count(LABELS), unsure = count(["unsure"]), skipped = count(["skip"]);
    const aside = [unsure ? `${unsure} unsure` : "", skipped ? `${skipped} skipped` : ""].filter(Boolean);
    at("counts").textContent = [`${labelled} of ${n} labelled`, ...aside].join(" · ");
    at("progress").max = Math.max(n, 1);
    at("progress").value = labelled + unsure + skipped;
    at("notice").hidden = state.begun;
    at("work").hidden = at("bar").hidden = !state.begun || ending;
    at("end").hidden = !ending;
    if (ending) showEnd(n - labelled - unsure - skipped, unsure + skipped);
    else if (state.begun) showRow(data.rows[state.place]);
  }

  function showRow(row) {
    const label = labelOf(row);
    at("place").textContent = `Row ${state.place + 1} of ${data.rows.length}`;
    at("given").textContent = label ? `· ${data.words.meanings[label][0].toLowerCase()}` : "";
    const single = row.messages.length === 1 && row.messages[0][0] === "User";
    const blocks = row.messages.flatMap(([who, text]) => (single ? [textBlock(text)] : [element("p", who, "who"), textBlock(text)]));
    at("messages").replaceChildren(...blocks);
    at("answer").textContent = row.answer;
    for (const button of at("labels").children) button.setAttribute("aria-pressed", String(button.dataset.label === label));
    at("comment").value = (state.marks[row.id] || {}).comment || "";
    at("back").disabled = state.place === 0;
  }

  function showEnd(open, aside) {
    at("end-title").textContent = open ? `${open} ${open === 1 ? "row is" : "rows are"} still open` : "You are through. Thank you";
    at("end-text").textContent = open
      ? "Export what you have now, or go on with the open rows."
      : "Export your labels and send the file to the person who gave you this page. Then you may close it.";
    at("end-open").hidden = !open;
    at("end-aside").hidden = !aside;
  }

  function go(place) {
    state.place = Math.min(Math.max(place, 0), data.rows.length);
    if (document.activeElement) document.activeElement.blur();
    save();
    show();
    scrollTo(0, 0);
  }

  // The next place, after this one and then from the start, whose label is one of these; the end if there is none.
  function nextWith(labels, from) {
    const n = data.rows.length;
    for (let step = 0; step < n; step++) {
      const place = (from + step) % n;
      if (labels.includes(labelOf(data.rows[place]))) return place;
    }
    return n;
  }

  // The next place after this one whose label is one of these; the end if there is none.
  function later(labels) {
    const found = data.rows.findIndex((row, place) => place > state.place && labels.includes(labelOf(row)));
    return found < 0 ? data.rows.length : found;
  }

  // ------------------------------------------------------------ what a rater does

  function give(label) {
    const row = data.rows[state.place];
    if (!state.begun || !row) return;
    const before = labelOf(row);
    tell("");
    state.marks[row.id] = { label, comment: at("comment").value.trim() };
    // On to what is open; when nothing is, what was put aside is being looked at again.
    const wanted = before === "" ? [""] : ASIDE.includes(before) && count([""]) === 0 ? ASIDE : null;
    go(wanted ? later(wanted) : state.place + 1);
  }

  function keepComment() {
    const row = data.rows[state.place];
    if (!state.begun || !row) return;
    state.marks[row.id] = { label: labelOf(row), comment: at("comment").value.trim() };
    save();
  }

  function begin() {
    state.begun = true;
    go(state.place);
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === at("comment")) {
      if (event.key === "Escape" || event.key === "Enter") {
        event.preventDefault();
        at("comment").blur();
      }
      return;
    }
    if (event.repeat) return; // a key held down is no label for the rows that follow
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!state.begun) return;
    const working = state.place < data.rows.length;
    const does = {
      b: () => go(state.place - 1),
      ArrowLeft: () => go(state.place - 1),
      Backspace: () => go(state.place - 1),
      ArrowRight: () => go(state.place + 1),
      n: () => go(nextWith([""], working ? state.place + 1 : 0)),
      m: () => working && at("comment").focus(),
      "?": () => {
        at("help").open = !at("help").open;
        if (at("help").open) at("help").scrollIntoView();
      },
    }[key];
    if (does) {
      event.preventDefault();
      does();
    } else if (Object.hasOwn(KEYS, key) && working) {
      event.preventDefault();
      give(KEYS[key]);
    }
  }

  // ------------------------------------------------------------ files

  // Rows in the order of their ids: the order shown is the rater's own affair.
  function given() {
    return data.rows
      .filter((row) => state.marks[row.id] && (labelOf(row) || state.marks[row.id].comment))
      .map((row) => ({ id: row.id, label: labelOf(row), comment: state.marks[row.id].comment }))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function download(text, ending, type) {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = `labels-${data.audit}-${data.rater}.${ending}`;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    tell(`Exported ${given().length} rows to ${link.download}.`);
  }

  function exportJson() {
    // One row a line, so that a message about a row can name its line.
    const lines = given().map((row) => "    " + JSON.stringify(row)).join(",\n");
    const head = `"format": ${JSON.stringify(FORMAT)},\n  "audit": ${JSON.stringify(data.audit)},\n  "rater": ${JSON.stringify(data.rater)}`;
    download(`{\n  ${head},\n  "labels": [\n${lines}\n  ]\n}\n`, "json", "application/json");
  }

  const FORMULA = /^'*(?:[ \t\r\n]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])/;
  // As in rater_files.py, where it is explained.
  const VALUE = /^(?:'*(?:[^A-Za-z0-9]{0,5}[0-9](?:[^\n]{0,40}|[0-9.,]*)|(?:jan|ene|gen|feb|f\u00e9v|mar|m\u00e4r|apr|abr|avr|ma[giy]|mei|ju[iln]|giu|lug|ago|aug|ao\u00fb|sep|set|o[ck]t|ott|out|nov|de[cz]|dic|d\u00e9c|mon|tue|wed|thu|fri|sat|sun)[^0-9\n]{0,9}[0-9][^\n]{0,20}|true|false|wahr|falsch|vrai|faux|verdadero|falso|vero|verdadeiro|waar|onwaar)[ \t\r\n]*)$/i;
  const changes = (text) => FORMULA.test(text) || VALUE.test(text);
  const escaped = (text) => (changes(text) ? "'" + text : text);
  const plain = (cell) => (cell.startsWith("'") && changes(cell.slice(1)) ? cell.slice(1) : cell);

  function exportCsv() {
    const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const rows = given().map((row) => [data.audit, data.rater, row.id, row.label, row.comment]);
    const lines = [["audit", "rater", "id", "label", "comment"], ...rows].map((row) => row.map((text) => cell(escaped(text))).join(","));
    download("\ufeff" + lines.join("\n") + "\n", "csv", "text/csv");
  }

  function csvRows(text) {
    const rows = [[""]];
    let quoted = false;
    const separator = [",", ";", "\t"].sort((a, b) => text.split("\n", 1)[0].split(b).length - text.split("\n", 1)[0].split(a).length)[0];
    for (let i = 0; i < text.length; i++) {
      const row = rows[rows.length - 1], c = text[i];
      if (quoted) {
        if (c !== '"') row[row.length - 1] += c;
        else if (text[i + 1] === '"') row[row.length - 1] += text[++i];
        else quoted = false;
      } else if (c === '"') quoted = true;
      else if (c === separator) row.push("");
      else if (c === "\n") rows.push([""]);
      else if (c !== "\r") row[row.length - 1] += c;
    }
    const [header, ...rest] = rows.filter((row) => row.some((cell) => cell));
    return rest.map((row) => Object.fromEntries(header.map((name, i) => [name.trim().toLowerCase(), plain(row[i] || "")])));
  }

  function importText(text, name) {
    let rows;
    if (name.toLowerCase().endsWith(".json")) {
      const found = JSON.parse(text);
      if (found.format !== FORMAT) throw new Error("it is no file of labels");
      rows = found.labels.map((row) => ({ audit: found.audit, rater: found.rater, ...row }));
    } else rows = csvRows(text.replace(/^\ufeff/, ""));
    let taken = 0, changed = 0;
    const marks = { ...state.marks };
    for (const row of rows) {
      if (row.audit !== data.audit) throw new Error("it belongs to another audit");
      if (row.rater !== data.rater) throw new Error(`it belongs to ${row.rater}`);
      if (!known.has(row.id)) throw new Error(`it has a row ${row.id}, which is not on this page`);
      const label = String(row.label || "").trim().toLowerCase(), comment = String(row.comment || "");
      if (label && !LABELS.includes(label) && !ASIDE.includes(label)) throw new Error(`it has the label "${label}"`);
      if (!label && !comment) continue;
      const before = state.marks[row.id];
      if (before && before.label && label && before.label !== label) changed++;
      marks[row.id] = { label: label || (before || {}).label || "", comment: comment || (before || {}).comment || "" };
      taken++;
    }
    state.marks = marks;
    go(nextWith([""], 0));
    tell(`Imported ${taken} rows from ${name}` + (changed ? `; ${changed} of them had another label here.` : "."));
  }

  async function importFile() {
    const [file] = at("import-file").files;
    if (!file) return;
    try {
      importText(await file.text(), file.name);
    } catch (error) {
      tell(`${file.name} was not imported: ${error.message}.`, true);
    }
    at("import-file").value = "";
  }

  // ------------------------------------------------------------ start

  load();
  showWords();
  show();
  if (!keeps) save();
  at("begin").addEventListener("click", begin);
  at("back").addEventListener("click", () => go(state.place - 1));
  at("forward").addEventListener("click", () => go(state.place + 1));
  at("comment").addEventListener("input", keepComment);
  at("end-open").addEventListener("click", () => go(nextWith([""], 0)));
  at("end-aside").addEventListener("click", () => go(nextWith(ASIDE, 0)));
  at("end-back").addEventListener("click", () => go(data.rows.length - 1));
  for (const id of ["export-json", "end-export"]) at(id).addEventListener("click", exportJson);
  at("export-csv").addEventListener("click", exportCsv);
  at("import-file").addEventListener("change", importFile);
  document.addEventListener("keydown", press);
  // Another window with the same page: the later one counts, and this one shows it.
  addEventListener("storage", (event) => {
    if (event.key === STORE && event.newValue) {
      state = kept(event.newValue);
      show();
    }
  });
})();
