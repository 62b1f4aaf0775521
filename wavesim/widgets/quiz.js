// A quiz: questions with choices, told at once what is wrong with a wrong one, and exercises to tick off. What was
// answered is kept in the browser, where it lets a page keep anything.

const STORE = "wavesim-quiz";

// What was kept: {answers: {key: [choice, ...]}, done: [exercise, ...]}; nothing where storage is blocked or damaged.
function kept() {
  try {
    const { answers, done } = JSON.parse(localStorage.getItem(STORE) ?? "{}");
    return { answers: answers ?? {}, done: done ?? [], isKept: true };
  } catch {
    return { answers: {}, done: [], isKept: canStore() };
  }
}

function canStore() {
  try {
    localStorage.setItem(`${STORE}-try`, "");
    localStorage.removeItem(`${STORE}-try`);
    return true;
  } catch {
    return false;
  }
}

function render({ model, el }) {
  const { lessons } = model.get("scene");
  const state = kept();
  const told = element("p", { class: "wavesim-quiz-told", role: "status" });
  const again = element("button", { type: "button" }, "Begin again");
  const root = element("div", { class: "wavesim-quiz" }, element("div", { class: "wavesim-quiz-head" }, told, again));
  const blocked = "This browser keeps nothing for this page: your answers are gone when you close it. Allow site data to keep them.";
  if (!state.isKept) root.append(element("p", { class: "wavesim-quiz-blocked" }, blocked));
  el.append(root);

  function keep() {
    try {
      localStorage.setItem(STORE, JSON.stringify({ answers: state.answers, done: state.done }));
    } catch {
      // Said above.
    }
    tell();
  }

  function tell() {
    const questions = lessons.flatMap((lesson) => lesson.questions);
    const answered = questions.filter((question) => state.answers[question.key]?.length);
    const first = answered.filter((question) => question.choices[state.answers[question.key][0]]?.isRight);
    const exercises = lessons.flatMap((lesson) => lesson.exercises);
    const done = exercises.filter((exercise) => state.done.includes(exercise.number));
    told.textContent =
      `${answered.length} of ${questions.length} questions answered, ${first.length} right at the first try · ` +
      `${done.length} of ${exercises.length} exercises ticked off`;
  }

  function questionOf(question) {
    const why = element("p", { class: "wavesim-quiz-why", role: "status" });
    const choices = question.choices.map((choice, index) => {
      const radio = element("input", { type: "radio", name: question.key, value: String(index) });
      radio.addEventListener("change", () => {
        state.answers[question.key] = [...(state.answers[question.key] ?? []), index];
        show(index);
        keep();
      });
      return [radio, element("label", {}, radio, element("span", {}, choice.says))];
    });
    function show(index) {
      const choice = question.choices[index];
      if (!choice) return; // kept of another version of the quiz
      choices[index][0].checked = true;
      why.textContent = `${choice.isRight ? "✓ Right." : "✗ No."} ${choice.why}`;
      why.dataset.right = String(choice.isRight);
    }
    if (state.answers[question.key]?.length) show(state.answers[question.key].at(-1));
    return element("fieldset", {}, element("legend", {}, question.asks), ...choices.map(([, label]) => label), why);
  }

  function exerciseOf({ number, task }) {
    const box = element("input", { type: "checkbox", checked: state.done.includes(number) });
    box.addEventListener("change", () => {
      state.done = state.done.filter((one) => one !== number).concat(box.checked ? [number] : []);
      keep();
    });
    return element("label", { class: "wavesim-quiz-exercise" }, box, element("span", {}, `${number}  ${task}`));
  }

  const sections = element("div");
  function draw() {
    sections.replaceChildren(
      ...lessons.map((lesson) =>
        element(
          "section",
          {},
          element("h2", {}, lesson.title),
          ...lesson.questions.map(questionOf),
          element("h3", {}, "Exercises in the notebook"),
          ...lesson.exercises.map(exerciseOf),
        ),
      ),
    );
    tell();
  }
  again.addEventListener("click", () => {
    state.answers = {};
    state.done = [];
    keep();
    draw();
  });
  root.append(sections);
  draw();
}

export default { render };
