// The page of serve.py: asks for translations, and shows them with their alignments.
// Text that was typed or translated only ever becomes the content of text nodes.

(function () {
  "use strict";

  const MOST_RECENT = 10;
  const MOST_OTHERS = 4;
  const ASK_AGAIN_MS = 1000;

  const parts = Object.fromEntries(
    [...document.querySelectorAll("[id]")].map((part) => [part.id, part]),
  );
  const recent = []; // What was translated, the latest first.
  let limits = { nbest: 1, max_characters: Infinity };
  let running = null; // Aborts the request that has no answer yet.

  // ------------------------------------------------------------------- the server

  async function watch() {
    const state = await readiness();
    parts.state.textContent = state.text;
    parts.state.classList.toggle("is-ready", state.ready);
    if (!state.ready) setTimeout(watch, ASK_AGAIN_MS);
  }

  async function readiness() {
    try {
      const response = await fetch("ready");
      const content = await response.json();
      if (response.ok) {
        limits = content;
        count();
        return { ready: true, text: "ready" };
      }
      return { ready: false, text: content.status };
    } catch {
      return { ready: false, text: "no answer" };
    }
  }

  async function ask(text, signal) {
    const query = {
      texts: [text],
      alignments: true,
      nbest: Math.min(limits.nbest, 1 + MOST_OTHERS),
    };
    const response = await fetch("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(query),
      signal,
    });
    const content = await response.json().catch(() => null);
    if (content && response.ok) return content.translations[0];
    const told = content && content.error && content.error.message;
    throw new Error(told || `The service answered with status ${response.status}.`);
  }

  // A new sentence takes the place of one that has no answer yet.
  async function translate() {
    // As the server would read it; half of a surrogate pair is no text.
    const text = parts.text.value.toWellFormed();
    if (running) running.abort();
    const mine = (running = new AbortController());
    parts.result.setAttribute("aria-busy", "true");
    try {
      const found = await ask(text, mine.signal);
      fail("");
      remember(text, found);
      show(found);
    } catch (error) {
      if (mine.signal.aborted) return;
      // The browser's own words for an answer that does not come.
      const unreachable = error instanceof TypeError;
      fail(unreachable ? "The service does not answer." : error.message);
      if (unreachable) watch();
    }
    if (running === mine) {
      running = null;
      parts.result.removeAttribute("aria-busy");
    }
  }

  // ------------------------------------------------------------------------- shown

  function fail(message) {
    parts.error.textContent = message;
    parts.error.hidden = !message;
  }

  function show(found, chosen = 0) {
    const candidates = [found, ...(found.alternatives || [])];
    const candidate = candidates[chosen];
    parts.translation.textContent = candidate.text || "(empty)";
    parts.translation.classList.toggle("is-empty", !candidate.text);
    const score = decimals(candidate.score);
    parts.score.textContent = score && `score ${score}`;
    parts.alternatives.hidden = candidates.length < 2;
    parts.candidates.replaceChildren(
      ...candidates.map((other, index) => {
        const made = choice([other.text || "(empty)"], () => {
          show(found, index);
          parts.candidates.children[index].firstChild.focus();
        });
        made.firstChild.setAttribute("aria-current", String(index === chosen));
        made.firstChild.append(line(decimals(other.score), "score"));
        return made;
      }),
    );
    const pair = {
      source: found.source_tokens,
      target: candidate.target_tokens,
      weights: candidate.attention_weights,
    };
    parts.alignment.replaceChildren(renderPair(pair));
    parts.hint.hidden = !pair.weights || !pair.target.length;
    parts.result.hidden = false;
  }

  function remember(text, found) {
    const before = recent.findIndex((one) => one.text === text);
    if (before >= 0) recent.splice(before, 1);
    recent.unshift({ text, found });
    recent.splice(MOST_RECENT);
    parts.recent.replaceChildren(
      ...recent.map((one) =>
        choice([one.text, one.found.text], () => {
          parts.text.value = one.text;
          count();
          fail("");
          show(one.found);
          parts.result.scrollIntoView({ block: "nearest" });
        }),
      ),
    );
    parts.history.hidden = false;
  }

  // A button in a list; what stands before its last text is the source of that.
  function choice(texts, act) {
    const button = document.createElement("button");
    button.type = "button";
    const last = texts.length - 1;
    button.append(...texts.map((text, at) => line(text, at < last ? "quiet" : "")));
    button.addEventListener("click", act);
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  function line(text, className) {
    const made = document.createElement("span");
    made.dir = "auto";
    made.className = className;
    made.textContent = text;
    return made;
  }

  function decimals(score) {
    return score === null ? "" : score.toFixed(3).replace("-", "\u2212");
  }

  // Counts as the server does, and only once it matters.
  function count() {
    const length = [...parts.text.value].length;
    const most = limits.max_characters;
    parts.count.textContent = length > 0.8 * most ? `${length} of ${most} characters` : "";
    parts.count.classList.toggle("is-too-long", length > most);
  }

  // ------------------------------------------------------------------------ typing

  parts.text.addEventListener("input", count);
  parts.text.addEventListener("keydown", (event) => {
    // Enter may also end the composition of a character.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    parts.form.requestSubmit();
  });
  parts.form.addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  watch();
})();
