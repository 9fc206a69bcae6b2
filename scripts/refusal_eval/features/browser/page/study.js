
"use strict";

// ------------------------------------------------------------ the study: what was packed into the page

const LABELS = ["refusal", "partial", "compliance"];
const READABLE = ["complete", "truncated"];
const BLOCKED = "blocked";
const at = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en-GB").format;
const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
const percent = (share) => `${share === 1 ? 100 : (100 * share).toFixed(1)} %`;

let study; // the head: names, columns of rows, answers and verdicts, rates of cells
let prompts = []; // messages of each prompt, [role, text]
// Texts of answers by their place, as far as they are unpacked; `lower` is the same in small letters, for the search.
const texts = { answers: [], reasoning: [], reasons: [], left: [], tokens: [], lower: { prompts: [], answers: [], reasoning: [], reasons: [] }, whole: false };

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function unpack(packed) {
  const letters = atob(packed), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function takeHead(head) {
  study = head;
  const { answers, rows } = study;
  study.n = answers.row.length;
  study.first = new Int32Array(rows.split.length + 1).fill(study.n); // the place of each row's first answer
  for (let a = study.n - 1; a >= 0; a--) study.first[answers.row[a]] = a;
  for (let r = rows.split.length - 1; r >= 0; r--) study.first[r] = Math.min(study.first[r], study.first[r + 1]);
  study.rateOf = new Map();
  for (const [judge, model, split, ...rate] of study.rates) study.rateOf.set(JSON.stringify([judge, model, split]), rate);
  study.isDialogue = (row) => rows.dialogue[row];
  study.dialogues = rows.dialogue.some(Boolean);
  study.samples = 1;
  for (const sample of answers.sample) if (sample >= study.samples) study.samples = sample + 1;
  texts.reasons = study.judges.map(() => []);
  texts.lower.reasons = study.judges.map(() => []);
}

const small = (text) => (text ? text.toLowerCase() : "");

function takePrompts(found) {
  prompts = found;
  texts.lower.prompts = prompts.map((messages) => small(messages.map(([, text]) => text).join("\n")));
}

function takePart({ first, answers, reasoning, reasons, left, tokens }) {
  answers.forEach((text, i) => {
    texts.answers[first + i] = text;
    texts.lower.answers[first + i] = small(text);
  });
  for (const [i, text] of Object.entries(reasoning)) {
    texts.reasoning[first + +i] = text;
    texts.lower.reasoning[first + +i] = small(text);
  }
  reasons.forEach((own, judge) => own.forEach((text, i) => {
    texts.reasons[judge][first + i] = text;
    texts.lower.reasons[judge][first + i] = small(text);
  }));
  for (const [i, text] of Object.entries(left)) texts.left[first + +i] = text;
  for (const [i, own] of Object.entries(tokens || {})) texts.tokens[first + +i] = own;
}

const idOf = (row) => study.names.prompts[study.rows.prompt[row]].split(" ")[1];
const splitOf = (row) => study.splits[study.rows.split[row]];
const stateOf = (answer) => study.names.states[study.answers.state[answer]];

// How an answer is drawn under a judge: by its label, or by why it has none.
function kindOf(answer, judge) {
  const label = study.verdicts[judge].label[answer];
  if (label >= 0) return LABELS[label];
  const state = stateOf(answer);
  return state === BLOCKED ? "blocked" : READABLE.includes(state) ? "unjudged" : "none";
}

const KIND_WORDS = { refusal: "refusal", partial: "partial refusal", compliance: "compliance", blocked: "blocked", unjudged: "no label", none: "no answer" };

function dotOf(answer, judge, out, own) {
  const p = study.verdicts[judge].p[answer], kind = kindOf(answer, judge);
  const sure = p === null || p === undefined ? 1 : Math.abs(2 * p - 1);
  const size = sure >= 0.8 ? "" : sure >= 0.4 ? " less" : " least";
  const dot = element("i", undefined, `dot ${kind}${size}${out ? " out" : ""}${own ? " own" : ""}`);
  dot.dataset.answer = answer;
  return dot;
}

// What the results table says of the whole cell of a model on a split.
function rateWords(judge, model, split) {
  const rate = study.rateOf.get(JSON.stringify([study.judges[judge].name, study.models[model].name, study.splits[split].name]));
  if (!rate || rate[0] === null) return null;
  const [value, low, high, level, n, flags] = rate, tenth = (x) => (100 * x).toFixed(1);
  const interval = low === null ? "" : ` [${tenth(low)}, ${tenth(high)}]`;
  return { value: `${tenth(value)}`, interval, level: Math.round(100 * (level || 0.95)), n, flags };
}

// Characters that hide or reorder others as codes, as everywhere in this project.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;
const visible = (text) => text.replace(/\r\n?/g, "\n").replace(UNSEEN, (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
