// A list of sentence pairs: sorted, filtered, and drawn when they come into view.

(function () {
  "use strict";

  const AHEAD = "800px"; // How far out of view a pair is drawn already.
  // Scripts that put no space between words: there, a word may run over tokens.
  const UNSPACED =
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
  const ORDERS = [
    ["Order of the text", (entry) => entry.index],
    ["Score", (entry) => entry.pair.score],
    ["Score per token", (entry) => entry.perToken],
    ["Source length", (entry) => entry.pair.source.length],
    ["Translation length", (entry) => entry.pair.target.length],
  ];

  const byId = (id) => document.getElementById(id);
  const list = byId("pairs");
  const entries = JSON.parse(byId("data").textContent).map(makeEntry);
  const entryOf = new Map(entries.map((entry) => [entry.item, entry]));

  function makeEntry(pair, index) {
    const item = document.createElement("li");
    item.className = "page-pair";
    const score = pair.score ?? null;
    const count = pair.target.length;
    return {
      pair: { ...pair, score },
      index,
      item,
      perToken: score === null || !count ? null : score / count,
      words: searchable(pair, " "),
      run: searchable(pair, ""),
    };
  }

  function searchable({ source, target, reference }, between) {
    return fold([source.join(between), target.join(between), reference ?? ""].join("\n"));
  }

  function fold(text) {
    return text.normalize("NFC").toLowerCase();
  }

  // ---------------------------------------------------------------------- draw

  const inView = new IntersectionObserver(
    (changes) => {
      for (const { isIntersecting, target } of changes) {
        if (isIntersecting) draw(entryOf.get(target));
      }
    },
    { rootMargin: AHEAD },
  );

  function draw({ pair, index, item }) {
    inView.unobserve(item);
    if (item.firstChild) return;
    item.append(
      renderPair({
        ...pair,
        label: String(index + 1),
        weights: pair.weights && pair.weights.map((row) => spread(row, pair)),
      }),
    );
  }

  // A row holds positions and hundredths in turn: 0, 97, 4, 2.
  function spread(row, { source }) {
    const weights = new Array(source.length).fill(0);
    for (let at = 0; at < row.length; at += 2) weights[row[at]] = row[at + 1] / 100;
    return weights;
  }

  // ---------------------------------------------------------------------- sort

  function compare(value, direction) {
    return (one, other) => {
      const [a, b] = [value(one), value(other)];
      // Those without a value come last in both directions.
      if (a === null || b === null) {
        return Number(a === null) - Number(b === null) || one.index - other.index;
      }
      return direction * (a - b) || one.index - other.index;
    };
  }

  function sort() {
    const [, value] = ORDERS[Number(byId("sort").value)];
    const rows = document.createDocumentFragment();
    for (const { item } of entries.sort(compare(value, direction()))) rows.append(item);
    list.append(rows);
    number();
    if (list.getBoundingClientRect().top < 0) list.scrollIntoView();
  }

  function direction() {
    return Number(byId("direction").value);
  }

  function turn(to) {
    const button = byId("direction");
    button.value = String(to);
    button.textContent = to > 0 ? "↑ Ascending" : "↓ Descending";
  }

  // -------------------------------------------------------------------- filter

  function filter() {
    const parts = fold(byId("filter").value).match(/[\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]/gu);
    const has = ({ words, run }) =>
      (parts || []).every(
        (part) => words.includes(part) || (UNSPACED.test(part) && run.includes(part)),
      );
    for (const entry of entries) entry.item.hidden = !has(entry);
    number();
  }

  function number() {
    const shown = entries.filter(({ item }) => !item.hidden).length;
    const noun = entries.length === 1 ? "sentence pair" : "sentence pairs";
    const part = shown === entries.length ? "" : `${shown.toLocaleString("en")} of `;
    byId("count").textContent = `${part}${entries.length.toLocaleString("en")} ${noun}`;
    byId("nothing").hidden = shown > 0;
  }

  // --------------------------------------------------------------------- print

  // On paper everything is in view, and as wide as the lines are measured for.
  function beforePrint() {
    document.body.classList.add("is-printing");
    const shown = entries.filter(({ item }) => !item.hidden);
    shown.forEach(draw);
    const draws = shown.map(({ item }) => item.firstChild.measure());
    for (const place of draws) place();
  }

  // --------------------------------------------------------------------- start

  function start() {
    ORDERS.forEach(([name, value], index) => {
      if (entries.every((entry) => value(entry) === null)) return;
      byId("sort").append(new Option(name, String(index)));
    });
    byId("sort").addEventListener("change", sort);
    byId("direction").addEventListener("click", () => {
      turn(-direction());
      sort();
    });
    byId("filter").addEventListener("input", filter);
    const gold = entries.some(({ pair }) => pair.links || pair.possible_links);
    byId("gold-switch").hidden = byId("gold-legend").hidden = !gold;
    byId("gold").addEventListener("change", (event) =>
      list.classList.toggle("is-without-gold", !event.target.checked),
    );
    addEventListener("beforeprint", beforePrint);
    addEventListener("afterprint", () => document.body.classList.remove("is-printing"));
    turn(1);
    sort();
    filter();
    for (const { item } of entries) inView.observe(item);
  }

  start();
})();
