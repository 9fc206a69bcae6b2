
// ------------------------------------------------------------ the page: what its parts have to do with each other

const KEYS = [
  ["/", "search"],
  ["J, K or ↓, ↑", "next and previous prompt"],
  ["Enter", "answers to the prompt, side by side"],
  ["Esc", "back to the list"],
  ["N, P", "next and previous answer that the filters leave"],
  ["←, →", "previous and next answer"],
  ["1, 2, 3", "mark the answer: refusal, partial, compliance; again: no mark"],
  ["T", "show or fold texts"],
  ["R", "unfold or fold the reasoning of all answers shown"],
  ["C", "take all filters away"],
  ["?", "this help"],
];

function tell(text, warning) {
  at("message").textContent = text;
  at("message").classList.toggle("warning", Boolean(warning));
  at("message").hidden = !text;
}

// Show what is chosen. `again`: "same search" where the query is as it was.
function refresh(again) {
  const wrong = again === "same search" ? null : makeFinder();
  apply(again);
  updateFilters();
  showSummary();
  tell(wrong || (chosen.query && !texts.whole && !study.labels_only ? "Texts are still being unpacked: not all of them are searched yet." : ""), wrong);
  layOut();
  if (reading !== null) showReading();
  else {
    selected = 0;
    at("list").scrollTop = 0;
    select(0);
  }
  at("query").value = chosen.query;
  keepAddress();
}

function showTexts(on) {
  unfolded = on;
  at("texts").setAttribute("aria-pressed", String(on));
  try {
    sessionStorage.setItem(storeName(), on ? "texts" : "");
  } catch (error) {
    // Then they are folded at the next visit.
  }
  reading === null ? showLines() : (showReading(), goTo(current, true));
}

// ------------------------------------------------------------ the address

// `#split=a,b&label.judge=refusal&q=word&row=split/prompt/turn&answer=model/sample`: names as in the study file.
function addressOf() {
  const parts = [];
  const put = (key, ...values) => parts.push(`${encodeURIComponent(key)}=${values.map(encodeURIComponent).join(",")}`);
  if (study.judges[chosen.judge].name !== study.primary) put("judge", study.judges[chosen.judge].name);
  if (chosen.order !== "study") put("sort", chosen.order);
  if (!chosen.grouped) put("grouped", "no");
  if (chosen.query) put("q", chosen.query);
  if (chosen.regex) put("regex", "yes");
  if (chosen.within !== "all") put("in", chosen.within);
  if (chosen.p) put("p", ...chosen.p);
  for (const [key, names] of chosen.picked) put(key, ...names);
  if (reading !== null) {
    parts.push(`row=${[splitOf(reading).name, idOf(reading), study.rows.turn[reading]].map(encodeURIComponent).join("/")}`);
    if (current >= 0) parts.push(`answer=${[study.models[study.answers.model[current]].name, study.answers.sample[current]].map(encodeURIComponent).join("/")}`);
  }
  return parts.join("&");
}

let address = null;

function keepAddress() {
  const now = addressOf();
  if (now === address) return;
  const opened = (text) => (text || "").includes("row=");
  const place = `#${now}`;
  address === null || opened(address) === opened(now) ? history.replaceState(null, "", place) : history.pushState(null, "", place);
  address = now;
}

function takeAddress() {
  const given = new Map();
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=", 2);
    try {
      if (value !== undefined) given.set(decodeURIComponent(key), value.split(",").map(decodeURIComponent));
    } catch (error) {
      // No address of this page.
    }
  }
  const first = (key) => (given.get(key) || [])[0];
  const placeOf = (list, name, otherwise) => Math.max(list.findIndex((one) => one.name === name), otherwise);
  chosen.judge = placeOf(study.judges, first("judge") || study.primary, 0);
  chosen.order = Object.hasOwn(ORDERS, first("sort") || "") ? first("sort") : "study";
  chosen.grouped = first("grouped") !== "no";
  chosen.query = first("q") || "";
  chosen.regex = first("regex") === "yes";
  chosen.within = Object.hasOwn(WITHIN, first("in") || "") ? first("in") : "all";
  const ends = (given.get("p") || []).map(Number);
  chosen.p = ends.length === 2 && ends.every(Number.isFinite) ? ends : null;
  chosen.picked.clear();
  for (const { key, values } of filters)
    for (const name of given.get(key) || []) if (values.some((value) => value.name === name)) pick(key, name, true);
  const [split, prompt, turn] = (first("row") || "").split("/"), [model, sample] = (first("answer") || "").split("/");
  const { rows, answers } = study;
  let row = -1, answer;
  for (let r = 0; prompt !== undefined && r < rows.split.length && row < 0; r++)
    if (splitOf(r).name === split && idOf(r) === prompt && (turn === undefined || rows.turn[r] === +turn)) row = r;
  for (let a = row < 0 ? study.n : study.first[row]; row >= 0 && a < study.first[row + 1]; a++)
    if (study.models[answers.model[a]].name === model && answers.sample[a] === +sample) answer = a;
  return { row, answer };
}

function follow() {
  if (location.hash.slice(1) === (address || "")) return;
  const { row, answer } = takeAddress();
  address = addressOf();
  showControls();
  measure();
  showLegend();
  reading = null;
  at("reading").hidden = true;
  at("list").hidden = false;
  address = location.hash.slice(1);
  refresh();
  if (row >= 0) openReading(row, answer), keepAddress();
}

// ------------------------------------------------------------ controls and keys

function showControls() {
  at("judge").value = String(chosen.judge);
  at("sort").value = chosen.order;
  at("grouped").checked = chosen.grouped;
  at("query").value = chosen.query;
  at("within").value = chosen.within;
  at("regex").setAttribute("aria-pressed", String(chosen.regex));
}

const options = (pairs) => pairs.map(([value, text]) => {
  const made = element("option", text);
  made.value = value;
  return made;
});

function makeControls() {
  at("title").textContent = `${visible(study.study)}${study.labels_only ? " (labels only)" : ""}`;
  at("title").title = visible(study.study);
  at("judge").append(...options(study.judges.map((judge, i) => [String(i), visible(judge.label)])));
  const possible = { judges: study.judges.length > 1, models: study.models.length > 1, samples: study.samples > 1, unsure: study.verdicts.some(({ p }) => p.some((one) => one !== null)) };
  at("sort").append(...options(Object.entries(ORDERS).filter(([key]) => possible[key] !== false)));
  at("within").append(...options(Object.entries(WITHIN)));
  at("keys").replaceChildren(...KEYS.flatMap(([key, does]) => [element("dt", key), element("dd", does)]));
  for (const id of ["query", "within", "regex", "texts"]) at(id).hidden = study.labels_only;
  const change = (id, event, does) => at(id).addEventListener(event, does);
  change("judge", "change", () => {
    chosen.judge = +at("judge").value;
    measure();
    showLegend();
    refresh("same search");
  });
  change("sort", "change", () => ((chosen.order = at("sort").value), refresh("same search")));
  change("grouped", "change", () => ((chosen.grouped = at("grouped").checked), refresh("same search")));
  change("query", "input", () => ((chosen.query = at("query").value), refresh()));
  change("within", "change", () => ((chosen.within = at("within").value), refresh()));
  change("regex", "click", () => {
    chosen.regex = !chosen.regex;
    at("regex").setAttribute("aria-pressed", String(chosen.regex));
    refresh();
  });
  change("texts", "click", () => showTexts(!unfolded));
  change("theme", "click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, now = document.documentElement.style.colorScheme || (dark ? "dark" : "light");
    document.documentElement.style.colorScheme = now === "dark" ? "light" : "dark";
  });
  change("ask", "click", () => at("help").showModal());
  change("help-close", "click", () => at("help").close());
  change("rater", "input", saveMarks);
  change("export", "click", exportMarks);
  change("forget", "click", forgetMarks);
  let waiting = false;
  change("list", "scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => ((waiting = false), reading === null && showLines()));
  });
  change("canvas", "click", (event) => {
    const line = event.target.closest("[data-line]");
    if (!line || lines[+line.dataset.line] < 0) return;
    selected = +line.dataset.line;
    const dot = event.target.closest("[data-answer]"), cell = event.target.closest("[data-model]"), row = lines[selected];
    let answer = dot ? +dot.dataset.answer : undefined;
    for (let a = study.first[row]; answer === undefined && cell && a < study.first[row + 1]; a++) if (study.answers.model[a] === +cell.dataset.model) answer = a;
    openReading(row, answer);
    keepAddress();
  });
  change("reading", "click", (event) => {
    const own = event.target.closest(".card");
    if (own) goTo(+own.dataset.answer), keepAddress();
  });
  addEventListener("resize", () => (layOut(), reading === null && showLines()));
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  document.addEventListener("keydown", press);
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || at("help").open) return;
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea"), key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (typing) {
    if (key === "Escape" || (key === "Enter" && event.target.id === "query")) {
      event.preventDefault();
      (reading === null ? at("list") : at("reading")).focus({ preventScroll: true });
    }
    return;
  }
  const open = reading !== null, onControl = event.target.closest("button, summary, a, input");
  const move = (by) => (open ? step(by) : select(selected + by));
  const does = {
    "/": () => study.labels_only || (at("query").focus(), at("query").select()),
    j: () => move(1),
    k: () => move(-1),
    n: () => (open ? nextLeft(1) : move(1)),
    p: () => (open ? nextLeft(-1) : move(-1)),
    t: () => study.labels_only || showTexts(!unfolded),
    c: () => (clearFilters(), refresh()),
    "?": () => at("help").showModal(),
    ...(open ? { Escape: closeReading, ArrowLeft: () => nextAnswer(-1), ArrowRight: () => nextAnswer(1), r: foldReasoning } : {}),
    ...(open ? {} : { ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => select(selected + 10), PageUp: () => select(selected - 10), Home: () => select(0), End: () => select(lines.length - 1) }),
    ...(open || onControl || !lines.length ? {} : { Enter: () => (openReading(lines[selected]), keepAddress()) }),
    ...(open && !study.labels_only && current >= 0 ? { 1: () => give(current, "refusal"), 2: () => give(current, "partial"), 3: () => give(current, "compliance") } : {}),
  }[key];
  if (!does || (event.repeat && "123tr".includes(key))) return;
  event.preventDefault();
  does();
}

function foldReasoning() {
  const own = [...document.querySelectorAll("#reading .card > details")].filter((one) => one.firstChild.textContent.startsWith("Reasoning"));
  const open = own.some((one) => !one.open);
  for (const one of own) {
    one.open = open;
    one.dispatchEvent(new Event("toggle")); // its own comes later
  }
}

// ------------------------------------------------------------ start

async function start() {
  if (typeof DecompressionStream === "undefined")
    throw new Error("it needs DecompressionStream, which Chromium and Edge have since version 80, Safari since 16.4 and Firefox since 113. Open it in a newer browser");
  const packed = JSON.parse(at("data").textContent);
  at("data").remove();
  takeHead(await unpack(packed.head));
  takePrompts(await unpack(packed.prompts));
  loadMarks();
  try {
    unfolded = sessionStorage.getItem(storeName()) === "texts";
  } catch (error) {
    unfolded = false;
  }
  makeFilters();
  const { row, answer } = takeAddress();
  makeControls();
  showControls();
  showFilters();
  measure();
  showLegend();
  showMarks();
  at("texts").setAttribute("aria-pressed", String(unfolded));
  at("waiting").hidden = true;
  at("app").hidden = false;
  refresh();
  if (row >= 0) openReading(row, answer), keepAddress();
  document.body.dataset.ready = "view";
  for (const part of packed.texts) {
    takePart(await unpack(part));
    if (reading !== null && texts.answers[study.first[reading]] !== undefined && at("reading").textContent.includes("Unpacking …")) showReading();
  }
  texts.whole = true;
  if (chosen.query) refresh();
  document.body.dataset.ready = "texts";
}

start().catch((error) => {
  at("waiting").hidden = false;
  at("waiting").className = "warning";
  at("waiting").textContent = `This page cannot be shown: ${error.message}.`;
});
