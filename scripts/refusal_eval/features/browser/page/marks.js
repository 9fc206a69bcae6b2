
// ------------------------------------------------------------ marks: what the reader says of answers

const MARKS_FORMAT = "refusal-eval marks 1";
const WORDS = { refusal: "Refusal", partial: "Partial", compliance: "Compliance" };
let marks = new Map(); // by place of the answer: {label, comment}
let keeps = true;

const markOf = (answer) => marks.get(answer);
const storeName = () => `refusal-eval marks ${study.study}`;

function nameOf(answer) {
  const { answers, rows } = study, row = answers.row[answer];
  return {
    model: study.models[answers.model[answer]].name,
    split: splitOf(row).name,
    prompt_id: idOf(row),
    sample: answers.sample[answer],
    turn: rows.turn[row],
    answer_id: answers.id[answer],
  };
}

const keyOf = (name) => JSON.stringify([name.model, name.split, name.prompt_id, name.sample, name.turn, name.answer_id]);

function loadMarks() {
  if (study.labels_only) return;
  try {
    const kept = JSON.parse(localStorage.getItem(storeName()) || "{}");
    at("rater").value = String(kept.rater || "");
    const wanted = new Map((kept.marks || []).map((mark) => [keyOf(mark), mark]));
    if (wanted.size)
      for (let a = 0; a < study.n; a++) {
        const mark = wanted.get(keyOf(nameOf(a)));
        if (mark && LABELS.includes(mark.label)) marks.set(a, { label: mark.label, comment: String(mark.comment || "") });
      }
  } catch (error) {
    keeps = false;
  }
}

function saveMarks() {
  try {
    localStorage.setItem(storeName(), JSON.stringify({ rater: at("rater").value, marks: given() }));
  } catch (error) {
    keeps = false;
  }
  showMarks();
}

const given = () => [...marks].sort(([a], [b]) => a - b).map(([answer, mark]) => ({ ...nameOf(answer), ...mark }));

function showMarks() {
  at("marks").hidden = !marks.size;
  at("marked").textContent = `${many(marks.size, "mark")}${keeps ? "" : "; this browser does not keep them: export them before you close the page"}`;
}

function updateMarkFilter() {
  const filter = filters.find((one) => one.key === "marked");
  filter.codes = byAnswer((a) => (marks.has(a) ? 0 : -1));
}

function give(answer, label) {
  if (!READABLE.includes(stateOf(answer))) return;
  const before = marks.get(answer) || { comment: "" };
  if (before.label === label) marks.delete(answer);
  else marks.set(answer, { ...before, label });
  updateMarkFilter();
  saveMarks();
  const line = document.querySelector(`#reading .card[data-answer="${answer}"] .give`);
  if (line) line.replaceWith(markLine(answer));
}

function markLine(answer) {
  const line = element("div", undefined, "give"), mark = marks.get(answer);
  LABELS.forEach((label, i) => {
    const button = element("button", `${WORDS[label]} `);
    button.type = "button";
    button.append(element("kbd", String(i + 1)));
    button.setAttribute("aria-pressed", String(Boolean(mark && mark.label === label)));
    button.addEventListener("click", () => {
      goTo(answer);
      give(answer, label);
    });
    line.append(button);
  });
  if (mark) {
    const comment = element("input");
    Object.assign(comment, { type: "text", placeholder: "Comment", maxLength: 2000, value: mark.comment });
    comment.setAttribute("aria-label", "Comment");
    comment.addEventListener("input", () => {
      marks.set(answer, { ...marks.get(answer), comment: comment.value });
      saveMarks();
    });
    line.append(comment);
  }
  return line;
}

function exportMarks() {
  const rows = given().map((row) => "    " + JSON.stringify(row)).join(",\n"); // one a line, for messages about lines
  const head = `"format": ${JSON.stringify(MARKS_FORMAT)},\n  "study": ${JSON.stringify(study.study)},\n  "rater": ${JSON.stringify(at("rater").value.trim())}`;
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([`{\n  ${head},\n  "marks": [\n${rows}\n  ]\n}\n`], { type: "application/json" }));
  link.download = `marks-${study.study}.json`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  tell(`Exported ${many(marks.size, "mark")} to ${link.download}. Give it to: refusal-eval audit read STUDY.yaml ${link.download}`);
}

function forgetMarks() {
  if (!marks.size) return;
  const before = marks;
  marks = new Map();
  updateMarkFilter();
  saveMarks();
  refresh("same search");
  const back = element("button", "Undo");
  back.type = "button";
  back.addEventListener("click", () => {
    marks = before;
    updateMarkFilter();
    saveMarks();
    tell("");
    refresh("same search");
  });
  tell(`${many(before.size, "mark")} forgotten. `);
  at("message").append(back);
}
