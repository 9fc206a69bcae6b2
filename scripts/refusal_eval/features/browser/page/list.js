
// ------------------------------------------------------------ the list: rows that can be seen, and no others

const DOT = 14; // pixels of a dot and its margins
const BESIDE = 10; // dots on one line of a cell
const LEAST = 200; // pixels of the column with prompts
const MOST = 900; // likewise: in a wide window dots stay near their prompt
let lines = []; // what the list shows: places of rows, and -1 - split for the heading of a split
let height = 50;
let selected = 0; // place in `lines`

function layOut() {
  lines = [];
  let before = -1;
  for (const row of left.rows) {
    const split = study.rows.split[row];
    // The first split is named above the list.
    if (chosen.grouped && split !== before && before !== -1) lines.push(-1 - split);
    before = split;
    lines.push(row);
  }
  height = Math.max(50, 18 + 13 * Math.ceil(study.samples / BESIDE));
  const list = at("list"), models = shownModels(), least = Math.max(96, 20 + DOT * Math.min(study.samples, BESIDE));
  const cell = Math.max(least, Math.min(220, Math.floor((0.6 * list.clientWidth) / models.length)));
  const room = list.clientWidth - cell * models.length;
  list.style.setProperty("--first", `${Math.max(LEAST, Math.min(MOST, room))}px`);
  list.style.setProperty("--cell", `${cell}px`);
  list.style.setProperty("--models", models.length);
  list.style.setProperty("--height", `${height}px`);
  at("canvas").style.height = `${lines.length * height}px`;
  list.setAttribute("aria-rowcount", lines.length + 1);
  list.setAttribute("aria-colcount", models.length + 1);
}

function showColumns() {
  // The heading of the split at the top of the window stays in view.
  const split = splitInView(), cells = [element("div")];
  cells[0].setAttribute("role", "columnheader");
  if (split !== null) cells[0].append(element("b", visible(study.splits[split].label)), element("small", splitWords(split)));
  else cells[0].append(element("b", "Prompt"));
  for (const model of shownModels()) {
    const head = element("div");
    head.setAttribute("role", "columnheader");
    head.title = visible(study.models[model].label);
    head.append(element("b", visible(study.models[model].label)));
    if (split !== null) head.append(...cellWords(split, model));
    cells.push(head);
  }
  at("columns").replaceChildren(...cells);
}

const splitWords = (split) => {
  const { expectation, reading } = study.splits[split];
  return `${EXPECTED[expectation]} · rates: ${reading}, ${study.judges[chosen.judge].label}`;
};

// What the results table says of a whole cell, and what the filters leave of its answers.
function cellWords(split, model) {
  const rate = rateWords(chosen.judge, model, split), cell = split * study.models.length + model;
  const n = left.byCell[cell], of = left.ofCell[cell];
  const words = [rate ? `${rate.value} %` : "no rate", rate ? rate.interval.trim() : "", of ? `${count(n)} · ${percent(n / of)}` : "no answers"];
  const made = words.map((text) => element("small", text));
  if (rate) made[0].title = made[1].title = `Refusal rate of the whole cell, ${rate.level} % interval: ${rate.value} %${rate.interval}, ${many(rate.n, "prompt")}`;
  made[0].className = "rate";
  made[2].title = `The filters leave ${count(n)} of ${many(of, "answer")}`;
  return made;
}

function splitInView() {
  if (!lines.length) return null;
  if (chosen.grouped) {
    let place = Math.min(Math.floor(at("list").scrollTop / height), lines.length - 1);
    if (lines[place] < 0 && place > 0) place--; // a heading that can be seen itself
    return study.rows.split[lines[place]];
  }
  const splits = new Set(left.rows.map((row) => study.rows.split[row]));
  return splits.size === 1 ? [...splits][0] : null;
}

function headingLine(split) {
  const line = element("div", undefined, "row head"), first = element("div");
  first.setAttribute("role", "rowheader");
  first.append(element("b", visible(study.splits[split].label)), element("small", splitWords(split)));
  line.append(first);
  for (const model of shownModels()) {
    const cell = element("div");
    cell.setAttribute("role", "gridcell");
    cell.append(...cellWords(split, model));
    line.append(cell);
  }
  return line;
}

function rowLine(row) {
  const line = element("div", undefined, "row"), first = element("div");
  first.setAttribute("role", "rowheader");
  const messages = prompts[study.rows.prompt[row]], open = textsShown() && messages;
  const title = element("span", open ? visible(lastAsked(row)).replaceAll("\n", " ").slice(0, 300) : `Prompt ${idOf(row)}`, "ask");
  title.dir = "auto";
  first.append(title, element("span", aboutRow(row), "about"));
  line.append(first);
  const models = shownModels(), cells = new Map(models.map((model) => [model, element("div", undefined, "cell")]));
  const said = new Map(models.map((model) => [model, {}]));
  for (let a = study.first[row]; a < study.first[row + 1]; a++) {
    const model = study.answers.model[a];
    if (!cells.has(model)) continue;
    cells.get(model).append(dotOf(a, chosen.judge, !left.in[a], Boolean(markOf(a))));
    const kind = KIND_WORDS[kindOf(a, chosen.judge)];
    said.get(model)[kind] = (said.get(model)[kind] || 0) + 1;
  }
  for (const [model, cell] of cells) {
    cell.setAttribute("role", "gridcell");
    const words = Object.entries(said.get(model)).map(([kind, n]) => `${n} ${kind}`).join(", ");
    cell.setAttribute("aria-label", `${study.models[model].label}: ${words || "no answers"}`);
    cell.title = words;
    cell.dataset.model = model;
    line.append(cell);
  }
  return line;
}

function lastAsked(row) {
  const asked = prompts[study.rows.prompt[row]].filter(([role]) => role === "user"), turn = study.rows.turn[row];
  return (asked[study.isDialogue(row) ? turn : asked.length - 1] || prompts[study.rows.prompt[row]].at(-1) || ["", ""])[1];
}

function aboutRow(row) {
  const { rows, names } = study, category = names.categories[rows.category[row]];
  const turn = study.isDialogue(row) ? `turn ${rows.turn[row] + 1}${rows.scored[row] ? "" : " (not scored)"}` : "";
  const by = measured[chosen.order], score = by ? `${ORDERS[chosen.order]}: ${by[row].toFixed(2)}` : "";
  return [score, turn, chosen.grouped ? "" : splitOf(row).label, category].filter(Boolean).map(visible).join(" · ");
}

function showLines() {
  const list = at("list"), from = Math.max(0, Math.floor(list.scrollTop / height) - 4);
  const to = Math.min(lines.length, from + Math.ceil(list.clientHeight / height) + 8);
  const made = [];
  for (let i = from; i < to; i++) {
    const line = lines[i] < 0 ? headingLine(-1 - lines[i]) : rowLine(lines[i]);
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", i + 2);
    line.dataset.line = i;
    line.style.transform = `translateY(${i * height}px)`;
    if (i === selected && lines[i] >= 0) line.classList.add("at");
    made.push(line);
  }
  if (!made.length) made.push(element("p", "No answer is left. Take a filter away.", "empty"));
  at("canvas").replaceChildren(...made);
  showColumns();
}

function select(place, centre) {
  const step = place < selected ? -1 : 1;
  let to = Math.max(0, Math.min(place, lines.length - 1));
  while (lines[to] < 0 && to + step >= 0 && to + step < lines.length) to += step;
  if (lines[to] < 0) to = lines.findIndex((line) => line >= 0);
  selected = to;
  const list = at("list"), top = to * height, head = at("columns").offsetHeight, room = list.clientHeight - head;
  if (centre) list.scrollTop = top - room / 2;
  else if (top - height < list.scrollTop) list.scrollTop = Math.max(0, top - height);
  else if (top + 2 * height > list.scrollTop + room) list.scrollTop = top + 2 * height - room;
  showLines();
}

function showSummary() {
  const words = element("b", count(left.n));
  const parts = [words, ` of ${many(study.n, "answer")} (${percent(left.n / study.n)}) to ${count(left.rows.length)} of ${many(study.rows.split.length, study.dialogues ? "turn" : "prompt")}`];
  const cells = [...left.byCell.keys()].filter((cell) => left.byCell[cell]), models = study.models.length;
  if (cells.length === 1) {
    const rate = rateWords(chosen.judge, cells[0] % models, Math.floor(cells[0] / models));
    if (rate) parts.push(` · rate of the whole cell: ${rate.value} %${rate.interval}`);
  }
  at("counts").replaceChildren(...parts);
  const chips = [];
  const chip = (text, undo) => {
    const button = element("button", `${text} ✕`, "chip");
    button.type = "button";
    button.title = `Take away: ${text}`;
    button.addEventListener("click", () => {
      undo();
      refresh();
    });
    chips.push(button);
  };
  for (const filter of filters) {
    const names = chosen.picked.get(filter.key);
    if (!names) continue;
    const labels = filter.values.filter(({ name }) => names.has(name)).map(({ label }) => visible(String(label)));
    chip(filter.values.length === 1 && filter.values[0].name === "yes" ? labels[0] : `${filter.title}: ${labels.join(", ")}`, () => chosen.picked.delete(filter.key));
  }
  if (chosen.p) chip(`probability ${chosen.p[0]} to ${chosen.p[1]}`, () => (chosen.p = null));
  if (chosen.query) chip(`“${visible(chosen.query)}”`, () => (chosen.query = ""));
  if (chips.length > 1) {
    chip("all filters", clearFilters);
  }
  at("chips").replaceChildren(...chips);
}

function clearFilters() {
  chosen.picked.clear();
  chosen.p = null;
  chosen.query = "";
}

function showLegend() {
  const kinds = new Set();
  for (let a = 0; a < study.n; a++) kinds.add(kindOf(a, chosen.judge));
  at("legend").replaceChildren(
    ...Object.keys(KIND_WORDS).filter((kind) => kinds.has(kind)).map((kind) => {
      const one = element("span");
      one.append(element("i", undefined, `dot ${kind}`), ` ${KIND_WORDS[kind]}`);
      return one;
    }),
  );
}
