// One sentence pair with its links: renderPair(pair) gives an element to put anywhere.
// Its style is alignment.css. The links follow each change of its size; for who cannot
// wait for that, measure() of the element returns a function that draws them anew.
//
// pair = {
//   source: [string], target: [string],  // tokens as a reader should see them
//   weights: [[number]] or null,         // a row per target, a column per source token
//   links, possible_links: [[i, j]],     // gold (source, target) positions, optional
//   score: number, reference: string, label: string,  // optional
// }

var renderPair = (function () {
  "use strict";

  const STRONG = 0.15; // The least weight that is drawn while nothing is chosen.
  const LEAST = 0.015; // The least weight that is drawn and named for a chosen token.
  const NAMED = 6; // The most partners that the note names.
  const SVG = "http://www.w3.org/2000/svg";
  const RIGHT_TO_LEFT =
    /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/gu;

  // Draws the links when an element becomes part of a document, and when its size
  // changes. All are measured before one is changed, so that the browser lays out once.
  const resized = new ResizeObserver((changes) => {
    const draws = changes.map(({ target }) => target.measure());
    for (const draw of draws) draw();
  });

  function renderPair(pair) {
    const root = element("figure", "alignment");
    const note = element("span", "alignment-note");
    note.setAttribute("role", "status");
    const lines = element("div", "alignment-lines");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "alignment-links");
    svg.setAttribute("aria-hidden", "true");
    const sides = {
      source: line("source", pair.source, "Source", Boolean(pair.weights)),
      target: line("target", pair.target, "Translation", Boolean(pair.weights)),
    };
    lines.append(svg, ...sides.source.parts, ...sides.target.parts);
    if (pair.reference != null) lines.append(...reference(pair.reference));
    root.append(meta(pair, note), lines);
    const links = attended(pair.weights, sides).concat(
      gold(pair.possible_links, "possible", sides),
      gold(pair.links, "sure", sides),
    );
    for (const { weak, path } of links) if (!weak) svg.append(path);
    root.classList.toggle("is-plain", !links.length);
    root.measure = () => measured(links, lines);
    resized.observe(root);
    if (pair.weights) follow(root, { svg, sides, links, note });
    return root;
  }

  // ------------------------------------------------------------------- elements

  function element(name, className, text) {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function meta(pair, note) {
    const made = element("figcaption", "alignment-meta");
    if (pair.label != null) made.append(element("span", "alignment-label", pair.label));
    const count = pair.target.length;
    const facts = [`${pair.source.length} → ${count} tokens`];
    if (pair.score != null) {
      facts.unshift(`score ${decimals(pair.score)}`);
      if (count) facts.splice(1, 0, `${decimals(pair.score / count)} per token`);
    }
    made.append(...facts.map((fact) => element("span", "alignment-fact", fact)), note);
    return made;
  }

  function line(side, tokens, name, chosen) {
    const title = element("span", "alignment-name", name);
    const made = element("div", `alignment-line alignment-${side}`);
    made.dir = direction(tokens.join(" "));
    const parts = tokens.map((token) => {
      const part = element("span", "alignment-token", token);
      part.dir = "auto";
      return part;
    });
    // The spaces are for who copies the text.
    made.append(...parts.flatMap((part) => [part, " "]));
    if (!parts.length) made.append(element("span", "alignment-empty", "(empty)"));
    if (chosen && parts.length) {
      made.setAttribute("role", "listbox");
      made.setAttribute("aria-orientation", "horizontal");
      made.setAttribute("aria-label", name);
      parts.forEach((part, index) => {
        part.setAttribute("role", "option");
        part.setAttribute("aria-selected", "false");
        part.tabIndex = index ? -1 : 0;
      });
    }
    return { parts: [title, made], tokens: parts };
  }

  function reference(text) {
    const made = element("div", "alignment-reference", text);
    made.dir = direction(text);
    return [element("span", "alignment-name is-reference", "Reference"), made];
  }

  function direction(text) {
    const letters = (text.match(/\p{L}/gu) || []).length;
    const backward = (text.match(RIGHT_TO_LEFT) || []).length;
    return 2 * backward > letters ? "rtl" : "ltr";
  }

  function decimals(value) {
    return value.toFixed(Math.abs(value) < 1 ? 3 : 2).replace("-", "\u2212");
  }

  // ---------------------------------------------------------------------- links

  function attended(weights, sides) {
    const links = [];
    (weights || []).forEach((row, j) =>
      row.forEach((weight, i) => {
        if (weight < LEAST) return;
        const link = connect(i, j, sides, "weight");
        Object.assign(link, { weight, weak: weight < STRONG });
        link.path.style.setProperty("--weight", weight.toFixed(3));
        links.push(link);
      }),
    );
    return links;
  }

  function gold(pairs, kind, sides) {
    return (pairs || []).map(([i, j]) => connect(i, j, sides, `gold ${kind}`));
  }

  function connect(i, j, sides, kind) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `alignment-link ${kind}`);
    return { source: sides.source.tokens[i], target: sides.target.tokens[j], path };
  }

  function measured(links, lines) {
    const frame = lines.getBoundingClientRect();
    const boxes = new Map();
    for (const { source, target } of links) {
      for (const token of [source, target]) {
        if (!boxes.has(token)) boxes.set(token, token.getBoundingClientRect());
      }
    }
    return () => {
      for (const { source, target, path } of links) {
        path.setAttribute("d", curve(boxes.get(source), boxes.get(target), frame));
      }
    };
  }

  function curve(source, target, frame) {
    const x1 = round((source.left + source.right) / 2 - frame.left);
    const x2 = round((target.left + target.right) / 2 - frame.left);
    const y1 = round(source.bottom - frame.top);
    const y2 = round(target.top - frame.top);
    const middle = round((y1 + y2) / 2);
    return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }

  function round(value) {
    return Math.round(value * 10) / 10;
  }

  // --------------------------------------------------------------------- choice

  // The token under the pointer is lit, else the one that was tapped or has the focus.
  function follow(root, drawn) {
    let hovered = null;
    let chosen = null;
    let before = null; // Chosen when the pointer went down.
    let lit = null;
    const update = () => {
      const next = hovered || chosen;
      if (next === lit) return;
      lit = next;
      light(root, drawn, lit);
    };
    const on = (name, act) =>
      root.addEventListener(name, (event) => {
        act(event.target.closest(".alignment-token"), event);
        update();
      });
    on("pointerover", (token) => (hovered = token));
    on("pointerleave", () => (hovered = null));
    on("pointerdown", () => (before = chosen));
    on("focusin", (token) => (chosen = token));
    on("focusout", () => (chosen = null));
    on("click", (token) => {
      if (token) chosen = token === before ? null : token;
    });
    on("keydown", (token, event) => {
      if (event.key === "Escape") hovered = chosen = null;
      const goal = token && neighbour(token, drawn, event.key);
      if (!goal) return;
      event.preventDefault();
      for (const other of goal.parentElement.children) other.tabIndex = -1;
      goal.tabIndex = 0;
      hovered = null;
      goal.focus();
    });
  }

  // Left and right go by the eye, up and down to the partner with the largest weight.
  function neighbour(token, { sides, links }, key) {
    const side = sides.source.tokens.includes(token) ? "source" : "target";
    const tokens = sides[side].tokens;
    const forward = token.parentElement.dir === "rtl" ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward };
    if (key in steps) return tokens[tokens.indexOf(token) + steps[key]];
    if (key === "Home") return tokens[0];
    if (key === "End") return tokens[tokens.length - 1];
    if (key !== (side === "source" ? "ArrowDown" : "ArrowUp")) return undefined;
    const best = partners(links, token)[0];
    return best && best.token;
  }

  // What a token is linked to by weight, the largest first.
  function partners(links, token) {
    return links
      .filter((link) => link.weight && (link.source === token || link.target === token))
      .map((link) => ({
        token: link.source === token ? link.target : link.source,
        weight: link.weight,
      }))
      .sort((one, other) => other.weight - one.weight);
  }

  function light(root, { svg, sides, links, note }, token) {
    for (const other of [...sides.source.tokens, ...sides.target.tokens]) {
      other.classList.remove("is-partner");
      other.classList.toggle("is-chosen", other === token);
      other.setAttribute("aria-selected", String(other === token));
      other.removeAttribute("data-weight");
      other.style.removeProperty("--weight");
    }
    for (const { source, target, weak, path } of links) {
      const lit = source === token || target === token;
      path.classList.toggle("is-lit", lit);
      // A weak link is in the picture only while it is lit: most links are weak.
      if (weak && lit) svg.append(path);
      else if (weak) path.remove();
    }
    root.classList.toggle("is-lit", Boolean(token));
    note.replaceChildren();
    if (!token) return;
    const found = partners(links, token);
    for (const partner of found) {
      partner.token.classList.add("is-partner");
      partner.token.dataset.weight = partner.weight.toFixed(2);
      partner.token.style.setProperty("--weight", partner.weight.toFixed(3));
    }
    note.append(...sentence(token, found));
  }

  function sentence(token, found) {
    const word = (text) => element("bdi", "alignment-word", text);
    const parts = [word(token.textContent)];
    if (!found.length) return [...parts, " has no link"];
    found.slice(0, NAMED).forEach((partner, index) => {
      const { token: other, weight } = partner;
      parts.push(index ? ", " : ": ", word(other.textContent), ` ${weight.toFixed(2)}`);
    });
    return found.length > NAMED ? [...parts, ", …"] : parts;
  }

  return renderPair;
})();
