
// ------------------------------------------------------------ filters, search and order

const EXPECTED = { comply: "should comply", refuse: "should refuse", varies: "may vary" };
const WITHIN = { all: "everywhere", prompts: "prompts", answers: "answers", reasoning: "reasoning", reasons: "judges' reasons" };
const ORDERS = {
  study: "as in the study",
  judges: "judges differ most",
  models: "models differ most",
  samples: "samples differ most",
  entropy: "entropy of labels",
  unsure: "judge least sure",
  refusals: "most refusals",
};
const NONE = "none";

// What is chosen. `picked`: names of values by the key of their filter; `p`: ends of the judge's probability, or null.
const chosen = { judge: 0, order: "study", grouped: true, query: "", within: "all", regex: false, picked: new Map(), p: null };

// A filter: its values, and for each answer the place of its value, -1 without one. Filters of one value say yes.
let filters = [];

function filterOf(key, title, values, codes, group) {
  return { key, title, group: group || title, values, codes, counts: new Int32Array(values.length), left: 0 };
}

// A filter without the values that no answer has; kinds change with the judge.
function used(filter) {
  if (filter.key === "kind") return filter;
  const seen = new Set(filter.codes), values = filter.values.filter((_, i) => seen.has(i));
  const places = filter.values.map((value) => values.indexOf(value));
  return filterOf(filter.key, filter.title, values, filter.codes.map((code) => (code < 0 ? -1 : places[code])), filter.group);
}

const byAnswer = (of) => Int16Array.from({ length: study.n }, (_, a) => of(a));
const labelled = (names, labels) => names.map((name, i) => ({ name, label: labels ? labels[i] : name }));

function makeFilters() {
  const { answers, rows, names } = study;
  const byRow = (column) => byAnswer((a) => column[answers.row[a]]);
  const turns = new Set(rows.turn);
  const expectations = Object.keys(EXPECTED).filter((one) => study.splits.some((split) => split.expectation === one));
  const yes = (key, name, label, of) => filterOf(key, label, [{ name, label }], byAnswer((a) => (of(a) ? 0 : -1)), "Differences and marks");
  const marks = [...new Set(answers.marks.flatMap((own) => own || []))];
  const blocks = names.blocks.map((block) => [block.by || "somebody", block.stage, block.category].filter(Boolean).join(" · "));
  const kinds = [...new Set(blocks)];
  const several = [
    filterOf("split", "Split", study.splits.map(({ name, label }) => ({ name, label })), byRow(rows.split)),
    filterOf("model", "Model", study.models.map(({ name, label }) => ({ name, label })), Int16Array.from(answers.model)),
    filterOf("expected", "Expectation", labelled(expectations, expectations.map((one) => EXPECTED[one])), byRow(rows.split.map((s) => expectations.indexOf(study.splits[s].expectation)))),
    ...study.judges.map((judge, j) =>
      filterOf(`label.${judge.name}`, study.judges.length === 1 ? "Label" : `Label: ${judge.label}`, labelled([...LABELS, NONE], ["refusal", "partial refusal", "compliance", "no label"]), byAnswer((a) => (study.verdicts[j].label[a] < 0 ? 3 : study.verdicts[j].label[a]))),
    ),
    filterOf("state", "State", labelled(names.states, names.states.map((state) => (state === "truncated" ? "cut off" : state.replaceAll("_", " ")))), Int16Array.from(answers.state)),
    filterOf("blocked", "Blocked by", labelled(kinds), byAnswer((a) => (answers.block[a] < 0 ? -1 : kinds.indexOf(blocks[answers.block[a]])))),
    filterOf("category", "Category", labelled(names.categories), byRow(rows.category)),
    filterOf("language", "Language", labelled(names.languages), byRow(rows.language)),
    filterOf("kind", "Kind of refusal (chosen judge)", labelled(names.kinds), new Int16Array(study.n)),
    filterOf("turn", "Turn", Array.from({ length: Math.max(...turns) + 1 }, (_, turn) => ({ name: String(turn), label: turn + 1 })), byRow(rows.turn)),
  ].map(used).filter((filter) => filter.values.length > 1 || (filter.key === "blocked" && filter.values.length));
  filters = [
    ...several,
    ...(study.judges.length > 1 ? [yes("differ.judges", "yes", "judges differ", judgesDiffer)] : []),
    ...(study.samples > 1 ? [yes("differ.samples", "yes", "samples differ", () => false)] : []),
    ...(study.models.length > 1 ? [yes("differ.models", "yes", "models differ", () => false)] : []),
    ...(answers.declared.some(Boolean) ? [yes("declared", "yes", "declared a refusal by the model", (a) => answers.declared[a])] : []),
    ...marks.map((mark) => yes(`mark.${mark}`, "yes", mark, (a) => answers.marks[a] && answers.marks[a].includes(mark))),
    ...(study.labels_only ? [] : [yes("marked", "yes", "marked by you", (a) => Boolean(markOf(a)))]),
  ];
}

function judgesDiffer(answer) {
  const given = study.verdicts.map((verdicts) => verdicts.label[answer]).filter((label) => label >= 0);
  return given.some((label) => label !== given[0]);
}

// ------------------------------------------------------------ what depends on the judge

let measured = {}; // of each row: entropy of labels, and how much judges, samples and models differ

const entropy = (counts, n) => counts.reduce((sum, c) => (c ? sum - (c / n) * Math.log2(c / n) : sum), 0);

function measure() {
  const { answers } = study, n = study.rows.split.length, { label, p, kind } = study.verdicts[chosen.judge];
  const empty = () => new Float32Array(n);
  measured = { entropy: empty(), judges: empty(), samples: empty(), models: empty(), unsure: empty(), refusals: empty() };
  const samplesDiffer = new Int16Array(study.n).fill(-1), modelsDiffer = new Int16Array(study.n).fill(-1);
  for (let row = 0; row < n; row++) {
    const all = [0, 0, 0], shares = [];
    let apart = 0, mixed = 0, cells = 0, unsure = 0, withP = 0;
    for (let a = study.first[row]; a < study.first[row + 1]; ) {
      const model = answers.model[a], own = [0, 0, 0], begin = a;
      for (; a < study.first[row + 1] && answers.model[a] === model; a++) {
        if (label[a] >= 0) own[label[a]]++;
        if (judgesDiffer(a)) apart++;
        if (p[a] !== null) (unsure += 1 - Math.abs(2 * p[a] - 1)), withP++;
      }
      const total = own[0] + own[1] + own[2];
      own.forEach((c, i) => (all[i] += c));
      if (!total) continue;
      cells++;
      shares.push((own[0] + own[1]) / total);
      if (Math.max(...own) < total) mixed++, samplesDiffer.fill(0, begin, a);
    }
    const total = all[0] + all[1] + all[2], mean = shares.reduce((x, y) => x + y, 0) / (shares.length || 1);
    // Models differ where most samples of one refuse, at least in part, and most of another do not.
    if (shares.some((s) => s > 0.5) && shares.some((s) => s < 0.5)) modelsDiffer.fill(0, study.first[row], study.first[row + 1]);
    measured.entropy[row] = total ? entropy(all, total) : 0;
    measured.judges[row] = apart / (study.first[row + 1] - study.first[row] || 1);
    measured.samples[row] = cells ? mixed / cells : 0;
    measured.models[row] = Math.sqrt(shares.reduce((sum, s) => sum + (s - mean) ** 2, 0) / (shares.length || 1));
    measured.unsure[row] = withP ? unsure / withP : 0;
    measured.refusals[row] = mean;
  }
  for (const filter of filters) {
    if (filter.key === "differ.samples") filter.codes = samplesDiffer;
    if (filter.key === "differ.models") filter.codes = modelsDiffer;
    if (filter.key === "kind") filter.codes = Int16Array.from(kind);
  }
}

// ------------------------------------------------------------ search

let finder = null; // of the query: tells of a text, and of the same in small letters, whether it is found

function makeFinder() {
  const { query, regex } = chosen;
  finder = null;
  if (!query) return null;
  if (!regex) {
    const wanted = query.toLowerCase();
    finder = { found: (text, lower) => lower.includes(wanted), marks: new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu") };
    return null;
  }
  try {
    const expression = new RegExp(query, "iu");
    finder = { found: (text) => expression.test(text), marks: new RegExp(query, "giu") };
    return null;
  } catch (error) {
    return `The regular expression is not valid: ${error.message.split(": ").pop()}.`;
  }
}

// For each answer whether the query is in its prompt, its text or what is said of it; null without a query.
function search() {
  if (!finder) return null;
  const hits = new Uint8Array(study.n), { lower } = texts, inside = (where) => chosen.within === "all" || chosen.within === where;
  if (inside("prompts")) {
    const found = prompts.map((messages, i) => finder.found(lower.prompts[i] === undefined ? "" : messages.map(([, text]) => text).join("\n"), lower.prompts[i]));
    for (let row = 0; row < study.rows.split.length; row++) if (found[study.rows.prompt[row]]) hits.fill(1, study.first[row], study.first[row + 1]);
  }
  const look = (raw, small) => {
    for (let a = 0; a < raw.length; a++) if (!hits[a] && raw[a] && finder.found(raw[a], small[a])) hits[a] = 1;
  };
  if (inside("answers")) look(texts.answers, lower.answers);
  if (inside("reasoning")) look(texts.reasoning, lower.reasoning);
  if (inside("reasons")) texts.reasons.forEach((own, judge) => look(own, lower.reasons[judge]));
  return hits;
}

// ------------------------------------------------------------ what is left

// `in`: whether an answer is left; `rows`: rows with any, in order; `byCell`: answers left of each (split, model).
const left = { in: new Uint8Array(0), n: 0, rows: [], byCell: new Map(), ofCell: new Map() };
let hits = null;

function apply(again) {
  if (again !== "same search") hits = search();
  // How many filters leave an answer out, and the place of the last one that does.
  const fails = new Uint8Array(study.n), last = new Int16Array(study.n), OTHER = -1;
  const leaveOut = (a, place) => (fails[a]++, (last[a] = place));
  filters.forEach((filter, place) => {
    const names = chosen.picked.get(filter.key);
    if (!names || !names.size) return;
    const fits = filter.values.map((value) => names.has(value.name)), { codes } = filter;
    for (let a = 0; a < study.n; a++) if (codes[a] < 0 || !fits[codes[a]]) leaveOut(a, place);
  });
  if (hits) for (let a = 0; a < study.n; a++) if (!hits[a]) leaveOut(a, OTHER);
  if (chosen.p) {
    const { p } = study.verdicts[chosen.judge], [low, high] = chosen.p;
    for (let a = 0; a < study.n; a++) if (p[a] === null || p[a] < low || p[a] > high) leaveOut(a, OTHER);
  }
  filters.forEach((filter, place) => {
    const { codes, counts } = filter;
    counts.fill(0);
    filter.left = 0;
    for (let a = 0; a < study.n; a++) {
      if (fails[a] === 0 || (fails[a] === 1 && last[a] === place)) {
        filter.left++;
        if (codes[a] >= 0) counts[codes[a]]++;
      }
    }
  });
  const { answers, rows } = study, models = study.models.length;
  left.in = new Uint8Array(study.n);
  left.n = 0;
  left.byCell = new Int32Array(study.splits.length * models);
  left.ofCell = new Int32Array(study.splits.length * models);
  const found = new Uint8Array(rows.split.length);
  for (let a = 0; a < study.n; a++) {
    const cell = rows.split[answers.row[a]] * models + answers.model[a];
    left.ofCell[cell]++;
    if (fails[a] === 0) (left.in[a] = 1), left.n++, left.byCell[cell]++, (found[answers.row[a]] = 1);
  }
  const order = [];
  for (let row = 0; row < found.length; row++) if (found[row]) order.push(row);
  const by = measured[chosen.order];
  if (by) order.sort((x, y) => (chosen.grouped && rows.split[x] - rows.split[y]) || by[y] - by[x] || x - y);
  left.rows = order;
}

const shownModels = () => {
  const names = chosen.picked.get("model");
  return study.models.map((_, i) => i).filter((i) => !names || !names.size || names.has(study.models[i].name));
};

function pick(key, name, on) {
  const names = chosen.picked.get(key) || new Set();
  on ? names.add(name) : names.delete(name);
  names.size ? chosen.picked.set(key, names) : chosen.picked.delete(key);
}

// ------------------------------------------------------------ how filters are shown

function showFilters() {
  const groups = new Map();
  for (const filter of filters) groups.set(filter.group, [...(groups.get(filter.group) || []), filter]);
  const made = [...groups].map(([title, own]) => {
    const set = element("fieldset"), values = element("div", undefined, "values");
    set.append(element("legend", title), values);
    for (const filter of own) {
      filter.shown = filter.values.map((value) => {
        const line = element("label", undefined, "value"), box = element("input");
        box.type = "checkbox";
        const name = element("span", visible(String(value.label)), "name");
        name.title = visible(String(value.label));
        const n = element("span", "", "n"), share = element("span", "", "share");
        line.append(box, name, n, share);
        values.append(line);
        box.addEventListener("change", () => {
          pick(filter.key, value.name, box.checked);
          refresh("same search");
        });
        return { line, box, n, share };
      });
    }
    return set;
  });
  if (study.verdicts.some(({ p }) => p.some((one) => one !== null))) made.splice(3, 0, probabilityFilter());
  at("filters").replaceChildren(...made);
}

function probabilityFilter() {
  const set = element("fieldset"), range = element("div", undefined, "range");
  set.append(element("legend", "Probability of a refusal (chosen judge)"), range);
  for (const [id, label] of [["p-low", "from"], ["p-high", "to"]]) {
    const box = element("input");
    Object.assign(box, { type: "number", id, min: 0, max: 1, step: 0.05 });
    const words = element("label", label + " ");
    words.append(box);
    range.append(words);
    box.addEventListener("change", () => {
      const [low, high] = ["p-low", "p-high"].map((one) => at(one).value);
      chosen.p = low === "" && high === "" ? null : [low === "" ? 0 : +low, high === "" ? 1 : +high];
      refresh("same search");
    });
  }
  return set;
}

function updateFilters() {
  for (const filter of filters) {
    const names = chosen.picked.get(filter.key);
    filter.shown.forEach(({ line, box, n, share }, i) => {
      box.checked = Boolean(names && names.has(filter.values[i].name));
      n.textContent = count(filter.counts[i]);
      share.textContent = filter.left ? percent(filter.counts[i] / filter.left) : "–";
      line.classList.toggle("none", !filter.counts[i]);
    });
  }
  if (at("p-low")) {
    at("p-low").value = chosen.p ? chosen.p[0] : "";
    at("p-high").value = chosen.p ? chosen.p[1] : "";
  }
}
