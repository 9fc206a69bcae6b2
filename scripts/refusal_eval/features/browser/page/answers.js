
// ------------------------------------------------------------ the answers to one prompt, side by side

const LONG = 3000; // characters of a text that is shown whole at once
const MOST_MARKS = 500; // places that are marked in one text
let reading = null; // the row whose answers are shown
let current = -1; // the answer that keys are about
let unfolded = false;

const textsShown = () => unfolded && !study.labels_only;

// A text as text, with what the search found marked; nothing of it is ever markup.
function fill(block, text) {
  const seen = visible(text);
  block.replaceChildren();
  let from = 0, marks = 0;
  if (finder) {
    finder.marks.lastIndex = 0;
    for (let found = finder.marks.exec(seen); found && marks < MOST_MARKS; found = finder.marks.exec(seen), marks++) {
      if (!found[0]) {
        finder.marks.lastIndex++;
        continue;
      }
      block.append(seen.slice(from, found.index), element("mark", found[0]));
      from = found.index + found[0].length;
    }
  }
  block.append(seen.slice(from));
}

function textBlock(text, className) {
  const block = element("div", undefined, `text ${className || ""}`);
  block.dir = "auto";
  if (text.length <= LONG) {
    fill(block, text);
    return block;
  }
  const whole = element("div");
  fill(block, text.slice(0, LONG));
  const more = element("button", `Show all ${count(text.length)} characters`);
  more.type = "button";
  more.addEventListener("click", () => {
    fill(block, text);
    more.remove();
  });
  whole.append(block, more);
  return whole;
}

function folded(title, make, open) {
  const made = element("details"), summary = element("summary", title);
  made.append(summary);
  const show = () => made.childElementCount === 1 && made.append(make());
  made.open = Boolean(open);
  if (open) show();
  made.addEventListener("toggle", show);
  return made;
}

// The messages of a row as far as its turn; of a dialogue the model's replies between them are its own.
function spoken(row, answer) {
  const turn = study.rows.turn[row], said = [];
  let number = -1;
  for (const [role, text] of prompts[study.rows.prompt[row]]) {
    number += role === "user";
    if (study.isDialogue(row) && number > turn) break;
    said.push([role, text]);
    if (answer === undefined || role !== "user" || number >= turn) continue;
    const reply = earlier(row, answer, number);
    if (reply >= 0) said.push([study.models[study.answers.model[answer]].label, texts.answers[reply] || ""]);
  }
  return said;
}

// The answer of the same model and sample to an earlier turn, -1 without one.
function earlier(row, answer, turn) {
  const { answers, rows } = study;
  for (let r = row - 1; r >= 0 && rows.prompt[r] === rows.prompt[row]; r--) {
    if (rows.turn[r] !== turn) continue;
    for (let a = study.first[r]; a < study.first[r + 1]; a++)
      if (answers.model[a] === answers.model[answer] && answers.sample[a] === answers.sample[answer]) return a;
  }
  return -1;
}

function messageBlocks(messages) {
  const box = element("div");
  const alone = messages.length === 1 && messages[0][0] === "user";
  for (const [role, text] of messages) {
    if (!alone) box.append(element("p", visible(role), "who"));
    box.append(textBlock(text));
  }
  return box;
}

function showReading() {
  const place = left.rows.indexOf(reading), box = at("reading"), bar = element("div", undefined, "bar");
  const button = (text, does, disabled) => {
    const made = element("button", text);
    made.type = "button";
    made.disabled = Boolean(disabled);
    made.addEventListener("click", does);
    bar.append(made);
  };
  button("← All prompts (Esc)", closeReading);
  button("Previous (K)", () => step(-1), place <= 0);
  button("Next (J)", () => step(1), place < 0 || place >= left.rows.length - 1);
  const { rows, names } = study;
  const facts = [
    place >= 0 ? `${count(place + 1)} of ${count(left.rows.length)}` : "not among the filtered",
    `${splitOf(reading).label} (${EXPECTED[splitOf(reading).expectation]})`,
    names.categories[rows.category[reading]],
    names.languages[rows.language[reading]],
    study.isDialogue(reading) ? `turn ${rows.turn[reading] + 1}${rows.scored[reading] ? "" : " (not scored)"}` : "",
    `prompt ${idOf(reading)}`,
  ];
  bar.append(element("span", facts.filter(Boolean).map((fact) => visible(String(fact))).join(" · "), "facts"));
  const prompt = element("div", undefined, "prompt");
  if (study.labels_only) prompt.append(element("p", "This page has labels only, without texts.", "small"));
  else prompt.append(folded("Prompt", () => messageBlocks(spoken(reading)), textsShown()));
  const beside = element("div", undefined, "beside");
  for (const model of shownModels()) {
    const column = element("div", undefined, "column"), title = element("h3", visible(study.models[model].label));
    const rate = rateWords(chosen.judge, model, rows.split[reading]);
    title.append(element("small", rate ? `whole cell: ${rate.value} %${rate.interval}` : "no rate of the cell"));
    column.append(title);
    for (let a = study.first[reading]; a < study.first[reading + 1]; a++) if (study.answers.model[a] === model) column.append(card(a));
    if (column.childElementCount === 1) column.append(element("p", "No answer.", "small"));
    beside.append(column);
  }
  box.replaceChildren(bar, prompt, beside);
  box.style.setProperty("--seen", `${box.clientWidth - 30}px`);
}

function card(answer) {
  const { answers, names } = study, own = element("article", undefined, "card"), state = stateOf(answer);
  own.dataset.answer = answer;
  own.classList.toggle("out", !left.in[answer]);
  own.classList.toggle("at", answer === current);
  own.setAttribute("aria-label", `${study.models[answers.model[answer]].label}, sample ${answers.sample[answer] + 1}`);
  const line = element("div", undefined, "line");
  line.append(dotOf(answer, chosen.judge, !left.in[answer]), element("b", `Sample ${answers.sample[answer] + 1}`));
  line.append(element("span", KIND_WORDS[kindOf(answer, chosen.judge)]));
  if (![BLOCKED, "complete"].includes(state)) line.append(element("span", state === "truncated" ? "cut off" : state.replaceAll("_", " "), "flag"));
  if (!left.in[answer]) line.append(element("span", "left out by the filters", "small"));
  if (answers.declared[answer]) line.append(element("span", "declared a refusal by the model", "flag"));
  for (const mark of answers.marks[answer] || []) line.append(element("span", visible(mark), "flag"));
  own.append(line);
  const logprob = answers.logprob[answer], tokens = answers.tokens[answer];
  const facts = [
    logprob === null ? "" : `${logprob.toFixed(2)} nats a token`,
    tokens ? many(tokens, "token") : "",
  ].filter(Boolean);
  if (facts.length) own.append(element("div", facts.join(" · "), "small"));
  const block = names.blocks[answers.block[answer]];
  if (block && Object.keys(block).length) {
    const words = ["by", "stage", "category", "severity", "code"].filter((key) => block[key]).map((key) => `${key}: ${block[key]}`);
    own.append(element("div", visible(words.join(" · ")), "small"));
  }
  own.append(verdictsOf(answer));
  if (!study.labels_only) own.append(...textsOf(answer));
  return own;
}

function verdictsOf(answer) {
  const list = element("ul", undefined, "said");
  study.judges.forEach((judge, j) => {
    const one = element("li"), verdicts = study.verdicts[j], line = element("div", undefined, "line");
    const p = verdicts.p[answer], kind = study.names.kinds[verdicts.kind[answer]], state = study.names.judged[verdicts.state[answer]];
    line.append(dotOf(answer, j), element("span", visible(judge.label)));
    const label = verdicts.label[answer] >= 0 ? LABELS[verdicts.label[answer]] : state === undefined ? "not judged" : state.replaceAll("_", " ");
    const words = [label, kind, p === null ? "" : `p ${p.toFixed(2)}`];
    line.append(element("span", visible(words.filter(Boolean).join(" · ")), "small"));
    one.append(line);
    const reason = texts.reasons[j][answer];
    if (reason) one.append(folded("reason", () => textBlock(reason, "small"), textsShown() && reason.length < 200));
    list.append(one);
  });
  return list;
}

function textsOf(answer) {
  const made = [], text = texts.answers[answer];
  if (text === undefined) return [element("p", "Unpacking …", "small")];
  if (text) {
    const show = () => textBlock(text);
    if (textsShown()) {
      const box = element("div", undefined, "answer");
      box.append(show());
      made.push(box);
    } else made.push(folded(`Answer (${many(text.length, "character")})`, show));
  }
  if (texts.left[answer]) made.push(folded("What was written before the block", () => textBlock(texts.left[answer])));
  const thought = texts.reasoning[answer];
  if (thought) made.push(folded(`Reasoning (${many(thought.length, "character")})`, () => textBlock(thought)));
  if (study.isDialogue(study.answers.row[answer]) && study.rows.turn[study.answers.row[answer]] > 0)
    made.push(folded("Conversation so far", () => messageBlocks(spoken(study.answers.row[answer], answer))));
  if (texts.tokens[answer]) made.push(folded("Log-probability by token", () => tokensOf(answer)));
  if (READABLE.includes(stateOf(answer))) made.push(markLine(answer));
  return made;
}

// Tokens of an answer, darker where the model was less sure of them.
function tokensOf(answer) {
  const box = element("div", undefined, "text tokens");
  box.dir = "auto";
  const [tokens, hundredths] = texts.tokens[answer];
  tokens.forEach((token, i) => {
    const logprob = hundredths[i] / 100;
    const level = logprob > -0.1 ? 0 : logprob > -0.7 ? 1 : logprob > -1.6 ? 2 : logprob > -3 ? 3 : 4;
    const one = element("span", visible(token), `l${level}`);
    one.title = `${logprob.toFixed(2)} nats (${percent(Math.exp(logprob))})`;
    box.append(one);
  });
  return box;
}

// ------------------------------------------------------------ opening, closing, going on

function openReading(row, answer) {
  reading = row;
  const own = [...Array(study.first[row + 1] - study.first[row]).keys()].map((i) => study.first[row] + i);
  const models = new Set(shownModels()), seen = own.filter((a) => models.has(study.answers.model[a]));
  current = answer !== undefined && seen.includes(answer) ? answer : seen.find((a) => left.in[a]) ?? seen[0] ?? -1;
  at("list").hidden = true;
  at("reading").hidden = false;
  showReading();
  at("reading").scrollTop = 0;
  at("reading").focus({ preventScroll: true });
  goTo(current, answer !== undefined || current !== seen[0]);
}

function closeReading() {
  if (reading === null) return;
  const line = lines.indexOf(reading);
  reading = null;
  at("reading").hidden = true;
  at("list").hidden = false;
  layOut();
  select(line >= 0 ? line : selected, true);
  at("list").focus({ preventScroll: true });
  keepAddress();
}

function step(by) {
  const place = left.rows.indexOf(reading) + by;
  if (place < 0 || place >= left.rows.length) return;
  openReading(left.rows[place]);
  keepAddress();
}

// Make an answer the one that keys are about.
function goTo(answer, scroll) {
  current = answer;
  for (const own of document.querySelectorAll("#reading .card")) {
    own.classList.toggle("at", +own.dataset.answer === answer);
    if (scroll && +own.dataset.answer === answer) own.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

// The next answer that the filters leave, in this row or in a later one; likewise back.
function nextLeft(by) {
  const cards = [...document.querySelectorAll("#reading .card")].map((own) => +own.dataset.answer), place = cards.indexOf(current);
  for (let i = place + by; i >= 0 && i < cards.length; i += by)
    if (left.in[cards[i]]) {
      goTo(cards[i], true);
      keepAddress();
      return;
    }
  step(by);
}

function nextAnswer(by) {
  const cards = [...document.querySelectorAll("#reading .card")].map((own) => +own.dataset.answer);
  const to = cards[cards.indexOf(current) + by];
  if (to !== undefined) goTo(to, true), keepAddress();
}
